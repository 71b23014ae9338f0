// Functions that may be applied to projections before they are written, chunk by chunk.
#pragma once

#include "sincos.h"

namespace mercer {
namespace {

// exp x = 2^n exp r, r = x - n ln 2. `ln2` are two parts of ln 2; n times the first is exact. Beyond
// `highest` and `lowest` the result overflows or underflows to zero. The Taylor polynomial of exp r - 1 - r, for
// |r| <= ln 2 / 2, over r^2; the highest power first.
template <class T>
struct Exponential;

template <>
struct Exponential<float> {
    static constexpr float highest = 89.5f;
    static constexpr float lowest = -104.5f;
    static constexpr float ln2[] = {0.693359375f, -2.12194440e-4f};
    static constexpr float taylor[] = {float(1.0 / 5040), float(1.0 / 720), float(1.0 / 120),
                                       float(1.0 / 24),   float(1.0 / 6),   0.5f};
    static constexpr int mantissa_bits = 23;
};

template <>
struct Exponential<double> {
    static constexpr double highest = 710.5;
    static constexpr double lowest = -746.5;
    static constexpr double ln2[] = {6.93147180369123816490e-01, 1.90821492927058770002e-10};
    static constexpr double taylor[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                        1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                        1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
    static constexpr int mantissa_bits = 52;
};

template <class T>
MERCER_INLINE Pack<T> exponential(Pack<T> x) {
    typedef Exponential<T> E;
    // Both lines preserve NaN, for which every comparison is false.
    x = select_negative<T>(broadcast(E::highest) - x, broadcast(E::highest), x);
    x = select_negative<T>(x - broadcast(E::lowest), broadcast(E::lowest), x);

    const Pack<T> rounder = broadcast(Trig<T>::rounder);
    const Pack<T> shifted = multiply_add<T>(x, broadcast(T(1.44269504088896340736)), rounder);
    const Pack<T> multiple = shifted - rounder;
    Pack<T> r = multiply_add<T>(multiple, broadcast(-E::ln2[0]), x);
    r = multiply_add<T>(multiple, broadcast(-E::ln2[1]), r);
    const Pack<T> grown = multiply_add<T>(polynomial<T>(r, E::taylor), r * r, r) + broadcast(T(1));

    // Two powers of two, because 2^n itself may be out of range where the result is not: an exponent
    // field holds n / 2 plus the bias.
    constexpr Word<T> bias = (Word<T>(1) << (8 * sizeof(T) - 2 - E::mantissa_bits)) - 1;
    const Bits<T> biased = bit_cast<Bits<T>>(shifted) - bit_cast<Bits<T>>(rounder) + Word<T>(2 * bias);
    const Bits<T> half = biased >> Word<T>(1);
    const Bits<T> other = biased - half;
    const Pack<T> first = bit_cast<Pack<T>>(half << Word<T>(E::mantissa_bits));
    const Pack<T> second = bit_cast<Pack<T>>(other << Word<T>(E::mantissa_bits));
    return grown * first * second;
}

// Applies a function to one pack; every function maps NaN to NaN.
template <class T, Function function>
MERCER_INLINE Pack<T> value_of(Pack<T> x) {
    const Pack<T> zero = broadcast(T(0));
    if constexpr (function == Function::sign) {
        // A zero of either sign, plus zero, is zero.
        const Pack<T> not_negative = select_negative<T>(zero - x, broadcast(T(1)), x + zero);
        return select_negative<T>(x, broadcast(T(-1)), not_negative);
    } else if constexpr (function == Function::absolute) {
        return bit_cast<Pack<T>>(magnitude_bits<T>(x));
    } else if constexpr (function == Function::relu) {
        return select_negative<T>(x, zero, x);
    } else if constexpr (function == Function::relu_squared) {
        const Pack<T> positive = select_negative<T>(x, zero, x);
        return positive * positive;
    } else if constexpr (function == Function::signed_square) {
        return x * bit_cast<Pack<T>>(magnitude_bits<T>(x));
    } else if constexpr (function == Function::exponential) {
        return exponential<T>(x);
    } else {
        return x;
    }
}

// Applies a function to `count` chunks, which start `step` elements apart, and writes the scaled results
// to `out` or multiplies `out` by them.
template <class T>
using ApplyToChunks = void (*)(const T* values, std::ptrdiff_t step, std::ptrdiff_t count, T scale, T* out,
                               std::ptrdiff_t out_step);

template <class T, Function function, bool product>
MERCER_NOINLINE void apply_to_chunks(const T* values, std::ptrdiff_t step, std::ptrdiff_t count, T scale, T* out,
                                     std::ptrdiff_t out_step) {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        for (int j = 0; j < chunk; j += lanes<T>) {
            const Pack<T> result = value_of<T, function>(load(values + j)) * scale;
            store(out + j, product ? load(out + j) * result : result);
        }
        values += step;
        out += out_step;
    }
}

template <class T, bool product>
ApplyToChunks<T> chunk_function(Function function) {
    switch (function) {
        case Function::identity: return apply_to_chunks<T, Function::identity, product>;
        case Function::sign: return apply_to_chunks<T, Function::sign, product>;
        case Function::absolute: return apply_to_chunks<T, Function::absolute, product>;
        case Function::relu: return apply_to_chunks<T, Function::relu, product>;
        case Function::relu_squared: return apply_to_chunks<T, Function::relu_squared, product>;
        case Function::signed_square: return apply_to_chunks<T, Function::signed_square, product>;
        case Function::exponential: break;
    }
    return apply_to_chunks<T, Function::exponential, product>;
}

}  // namespace
}  // namespace mercer
