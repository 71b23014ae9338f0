// Sine and cosine of a chunk of angles: Cody-Waite reduction by multiples of pi/2, then polynomials.
#pragma once

#include "kernels.h"
#include "lanes.h"

namespace mercer {
namespace {

// Angles are taken in chunks of this many columns, counted from the first column of a row. Short
// chunks are padded and go through the same code: a row's bits depend on nothing but the row.
constexpr int chunk = 64;

// half_pi[0] + half_pi[1] + half_pi[2] is pi/2. Up to `limit`, the multiple of pi/2 times the leading
// parts is exact (without a fused multiply-add) or cancels exactly (with one). Adding `rounder`
// rounds to an integer and leaves it in the low bits of the sum. Polynomials are from Cephes
// (S. Moshier): sin r = r + r z S(z), cos r = 1 - z/2 + z^2 C(z), z = r^2, |r| <= pi/4, the highest
// power first; `cosine` goes on with -1/2 and 1.
template <class T>
struct Trig;

template <>
struct Trig<float> {
    static constexpr float limit = has_fused_multiply_add ? 131072.0f : 8192.0f;
    static constexpr float rounder = 12582912.0f;  // 1.5 * 2^23
    static constexpr float half_pi[] = {
        has_fused_multiply_add ? 1.57079637050628662109375f : 1.5703125f,
        has_fused_multiply_add ? -4.37113900018624283e-8f : 4.837512969970703125e-4f,
        has_fused_multiply_add ? -1.71512451e-15f : 7.549789948768648e-8f,
    };
    static constexpr float sine[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
    static constexpr float cosine[] = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                       4.166664568298827e-2f, -0.5f, 1.0f};
};

template <>
struct Trig<double> {
    static constexpr double limit = 1e6;
    static constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double half_pi[] = {1.57079632673412561417, 6.07710050630396597660e-11,
                                         2.02226624879595063154e-21};
    static constexpr double sine[] = {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                                      2.75573136213857245213e-6,  -1.98412698295895385996e-4,
                                      8.33333333332211858878e-3,  -1.66666666666666307295e-1};
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

template <class T>
struct SinCos {
    Pack<T> sine;
    Pack<T> cosine;
};

template <class T>
constexpr Word<T> top_bit = Word<T>(1) << (8 * sizeof(T) - 1);

template <class T>
MERCER_INLINE Bits<T> magnitude_bits(Pack<T> x) {
    return bit_cast<Bits<T>>(x) & (top_bit<T> - 1);
}

// Right for |x| <= limit. The sign of x is put back at the end, so that sin(-0.0) is -0.0.
template <class T>
MERCER_INLINE SinCos<T> sincos(Pack<T> x) {
    const Bits<T> magnitude = magnitude_bits<T>(x);
    const Bits<T> sign_of_x = bit_cast<Bits<T>>(x) ^ magnitude;
    const Pack<T> rounder = broadcast(Trig<T>::rounder);

    Pack<T> r = bit_cast<Pack<T>>(magnitude);
    const Pack<T> shifted = multiply_add<T>(r, broadcast(T(0.63661977236758134308)), rounder);
    const Bits<T> quadrant = bit_cast<Bits<T>>(shifted);
    const Pack<T> multiple = shifted - rounder;
    MERCER_UNROLL
    for (int i = 0; i < 3; ++i) r = multiply_add<T>(multiple, broadcast(-Trig<T>::half_pi[i]), r);

    const Pack<T> z = r * r;
    const Pack<T> sine = multiply_add<T>(polynomial<T>(z, Trig<T>::sine) * z, r, r);
    const Pack<T> cosine = polynomial<T>(z, Trig<T>::cosine);

    constexpr int to_top = 8 * sizeof(T) - 2;  // from the quadrant's second bit to the sign
    const Bits<T> sine_sign = ((quadrant & Word<T>(2)) << Word<T>(to_top)) ^ sign_of_x;
    const Bits<T> cosine_sign = ((quadrant + Word<T>(1)) & Word<T>(2)) << Word<T>(to_top);
    return {
        bit_cast<Pack<T>>(bit_cast<Bits<T>>(select_odd<T>(quadrant, cosine, sine)) ^ sine_sign),
        bit_cast<Pack<T>>(bit_cast<Bits<T>>(select_odd<T>(quadrant, sine, cosine)) ^ cosine_sign),
    };
}

// Whether a lane is beyond the limit, infinite or NaN, read off the top bits of the result.
template <class T>
MERCER_INLINE Bits<T> beyond_limit(Pack<T> x) {
    const Bits<T> limit = bit_cast<Bits<T>>(broadcast(Trig<T>::limit));
    return limit - magnitude_bits<T>(x);
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

// Pairs of `count` chunks, at the given steps from one another. Many chunks in one call, because each
// call loads two dozen constants. Inlined nowhere, so that all callers run the same instructions.
template <class T>
MERCER_NOINLINE void pairs_of_chunks(const T* angles, std::ptrdiff_t angle_step, std::ptrdiff_t count, T scale,
                                     T* cosines, T* sines, std::ptrdiff_t out_step) {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        Bits<T> beyond = {};
        for (int j = 0; j < chunk; j += lanes<T>) {
            const Pack<T> x = load(angles + j);
            const SinCos<T> result = sincos<T>(x);
            store(cosines + j, result.cosine * scale);
            store(sines + j, result.sine * scale);
            beyond = beyond | beyond_limit<T>(x);
        }
        if (any_top_bit<T>(beyond)) repair_chunk(angles, scale, cosines, sines);
        angles += angle_step;
        cosines += out_step;
        sines += out_step;
    }
}

template <class T>
MERCER_NOINLINE void cosines_of_chunk(const T* angles, T scale, T* cosines) {
    Bits<T> beyond = {};
    for (int j = 0; j < chunk; j += lanes<T>) {
        const Pack<T> x = load(angles + j);
        store(cosines + j, sincos<T>(x).cosine * scale);
        beyond = beyond | beyond_limit<T>(x);
    }
    if (any_top_bit<T>(beyond)) repair_chunk<T>(angles, scale, cosines, nullptr);
}

}  // namespace
}  // namespace mercer
