// Sine and cosine of a chunk of angles: Cody-Waite reduction by multiples of pi/2, then polynomials.
#pragma once

#include "kernels.h"
#include "lanes.h"

namespace mercer {
namespace {

// Angles are processed in chunks of this many columns, counted from the first column of a row. Short
// chunks are padded and go through the same code, so that the results of a row depend only on the row.
constexpr int chunk = 64;

// The sum of `half_pi` is pi/2, in parts that are all positive, so that a zero keeps its sign. Up to `limit`
// the multiple of pi/2 times the leading parts is exact (without a fused multiply-add) or cancels exactly
// (with one). Adding `rounder` rounds to an integer and leaves it in the low bits of the sum; it also
// adds 2^range_bits, so that integers of at most that size change only the lowest range_bits + 1 bits.
// Polynomials are from Cephes (S. Moshier): sin r = r S(z), cos r = C(z), z = r^2, |r| <= pi/4, the
// highest power first.
template <class T>
struct Trig;

template <>
struct Trig<float> {
    static constexpr int range_bits = has_fused_multiply_add ? 16 : 12;
    static constexpr float limit = has_fused_multiply_add ? 102944.0f : 6434.0f;
    static constexpr float rounder = 12582912.0f + (1 << range_bits);  // 1.5 * 2^23 + 2^range_bits
    // With a fused multiply-add two parts leave 2e-15 times the multiple: 2e-10 at the limit, far below a
    // rounding of results near one.
    static constexpr int half_pi_parts = has_fused_multiply_add ? 2 : 3;
    static constexpr float half_pi[] = {
        has_fused_multiply_add ? 1.57079625129699707031f : 1.5703125f,
        has_fused_multiply_add ? 7.549789948768648e-8f : 4.837512969970703125e-4f,
        has_fused_multiply_add ? 0.0f : 7.549789948768648e-8f,
    };
    static constexpr float sine[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f, 1.0f};
    static constexpr float cosine[] = {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f,
                                       -0.5f, 1.0f};
};

template <>
struct Trig<double> {
    static constexpr int range_bits = 19;
    static constexpr double limit = 823550.0;
    static constexpr double rounder = 6755399441055744.0 + (1 << range_bits);  // 1.5 * 2^52 + 2^range_bits
    static constexpr int half_pi_parts = has_fused_multiply_add ? 2 : 3;
    static constexpr double half_pi[] = {
        has_fused_multiply_add ? 1.57079632679489655800 : 1.57079632673412561417,
        has_fused_multiply_add ? 6.12323399573676603587e-17 : 6.07710050630396597660e-11,
        has_fused_multiply_add ? 0.0 : 2.02226624879595063154e-21,
    };
    static constexpr double sine[] = {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                                      2.75573136213857245213e-6,  -1.98412698295895385996e-4,
                                      8.33333333332211858878e-3,  -1.66666666666666307295e-1,
                                      1.0};
    static constexpr double cosine[] = {-1.13585365213876817300e-11, 2.08757008419747316778e-9,
                                        -2.75573141792967388112e-7,  2.48015872888517045348e-5,
                                        -1.38888888888730564116e-3,  4.16666666666665929218e-2,
                                        -0.5,
                                        1.0};
};

template <class T, int terms>
MERCER_INLINE Pack<T> polynomial(Pack<T> z, const T (&coefficients)[terms]) {
    Pack<T> value = broadcast(coefficients[0]);
    MERCER_UNROLL
    for (int i = 1; i < terms; ++i) value = multiply_add<T>(value, z, broadcast(coefficients[i]));
    return value;
}

// Both polynomials times a scale, which saves one multiplication per result.
template <class T>
struct ScaledTrig {
    static constexpr int sine_terms = sizeof(Trig<T>::sine) / sizeof(T);
    static constexpr int cosine_terms = sizeof(Trig<T>::cosine) / sizeof(T);

    MERCER_INLINE explicit ScaledTrig(T scale) {
        for (int i = 0; i < sine_terms; ++i) sine[i] = scale * Trig<T>::sine[i];
        for (int i = 0; i < cosine_terms; ++i) cosine[i] = scale * Trig<T>::cosine[i];
    }

    T sine[sine_terms];
    T cosine[cosine_terms];
};

template <class T>
struct SinCos {
    Pack<T> sine;
    Pack<T> cosine;
    Bits<T> range;  // bits above the lowest range_bits + 1 are set if x is beyond the limit, infinite or NaN
};

template <class T>
constexpr Word<T> top_bit = Word<T>(1) << (8 * sizeof(T) - 1);

template <class T>
MERCER_INLINE Bits<T> magnitude_bits(Pack<T> x) {
    return bit_cast<Bits<T>>(x) & (top_bit<T> - 1);
}

// Scaled sine and cosine, accurate for |x| <= limit.
template <class T>
MERCER_INLINE SinCos<T> sincos(Pack<T> x, const ScaledTrig<T>& scaled) {
    const Pack<T> rounder = broadcast(Trig<T>::rounder);
    const Pack<T> shifted = multiply_add<T>(x, broadcast(T(0.63661977236758134308)), rounder);
    const Bits<T> quadrant = bit_cast<Bits<T>>(shifted);
    const Pack<T> multiple = shifted - rounder;
    Pack<T> r = x;
    MERCER_UNROLL
    for (int i = 0; i < Trig<T>::half_pi_parts; ++i)
        r = multiply_add<T>(multiple, broadcast(-Trig<T>::half_pi[i]), r);

    const Pack<T> z = r * r;
    const Pack<T> sine = r * polynomial<T>(z, scaled.sine);
    const Pack<T> cosine = polynomial<T>(z, scaled.cosine);

    constexpr int to_top = 8 * sizeof(T) - 2;  // from the quadrant's second bit to the sign
    const Bits<T> sine_sign = (quadrant << Word<T>(to_top)) & top_bit<T>;
    const Bits<T> cosine_sign = ((quadrant + Word<T>(1)) << Word<T>(to_top)) & top_bit<T>;
    return {
        bit_cast<Pack<T>>(bit_cast<Bits<T>>(select_odd<T>(quadrant, cosine, sine)) ^ sine_sign),
        bit_cast<Pack<T>>(bit_cast<Bits<T>>(select_odd<T>(quadrant, sine, cosine)) ^ cosine_sign),
        quadrant ^ bit_cast<Word<T>>(Trig<T>::rounder - (1 << Trig<T>::range_bits)),
    };
}

template <class T>
MERCER_INLINE bool any_beyond_limit(Bits<T> ranges) {
    return any_bit<T>(ranges >> Word<T>(Trig<T>::range_bits + 1));
}

// Replaces the results of the angles beyond the limit, one by one; `sines` may be null.
template <class T>
MERCER_NOINLINE void repair_chunk(const T* angles, T scale, T* cosines, T* sines) {
    for (int j = 0; j < chunk; ++j) {
        const T magnitude = angles[j] < 0 ? -angles[j] : angles[j];
        if (magnitude <= Trig<T>::limit) continue;
        double sine, cosine;
        library_sincos(angles[j], &sine, &cosine);
        cosines[j] = scale * T(cosine);
        if (sines) sines[j] = scale * T(sine);
    }
}

// Cosines and sines of `count` chunks, at the given steps. Many chunks per call, because each call loads
// two dozen constants. Never inlined, so that all callers run the same instructions.
template <class T>
MERCER_NOINLINE void pairs_of_chunks(const T* angles, std::ptrdiff_t angle_step, std::ptrdiff_t count, T scale,
                                     T* cosines, T* sines, std::ptrdiff_t out_step) {
    const ScaledTrig<T> scaled(scale);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        Bits<T> ranges = {};
        for (int j = 0; j < chunk; j += lanes<T>) {
            const SinCos<T> result = sincos<T>(load(angles + j), scaled);
            store(cosines + j, result.cosine);
            store(sines + j, result.sine);
            ranges = ranges | result.range;
        }
        if (any_beyond_limit<T>(ranges)) repair_chunk(angles, scale, cosines, sines);
        angles += angle_step;
        cosines += out_step;
        sines += out_step;
    }
}

template <class T>
MERCER_NOINLINE void cosines_of_chunk(const T* angles, T scale, T* cosines) {
    const ScaledTrig<T> scaled(scale);
    Bits<T> ranges = {};
    for (int j = 0; j < chunk; j += lanes<T>) {
        const SinCos<T> result = sincos<T>(load(angles + j), scaled);
        store(cosines + j, result.cosine);
        ranges = ranges | result.range;
    }
    if (any_beyond_limit<T>(ranges)) repair_chunk<T>(angles, scale, cosines, nullptr);
}

}  // namespace
}  // namespace mercer
