// Packs of numbers that the processor handles together (SIMD vectors).
//
// Everything here and in the headers built on it has internal linkage, because the same source is
// compiled for several instruction sets and the linker must not merge the copies.
//
// Contraction is off (-ffp-contract=off): a fused multiply-add happens exactly where the source says
// `multiply_add`, so a value cannot depend on which copy of an inlined function computed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__GNUC__)
#define MERCER_INLINE inline __attribute__((always_inline))
#define MERCER_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define MERCER_INLINE __forceinline
#define MERCER_NOINLINE __declspec(noinline)
#else
#define MERCER_INLINE inline
#define MERCER_NOINLINE
#endif

// Loops over packs held in registers must be unrolled entirely, or the packs go through memory.
#if defined(__clang__)
#define MERCER_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define MERCER_UNROLL _Pragma("GCC unroll 16")
#else
#define MERCER_UNROLL
#endif

// GCC and Clang have vector types; other compilers use an array of lanes instead.
#if defined(__GNUC__) && !defined(MERCER_ARRAY_LANES)
#define MERCER_VECTOR_TYPES
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define MERCER_AVX512
#elif defined(__AVX2__) && defined(__FMA__)
#define MERCER_AVX2
#endif
#endif

#if defined(MERCER_AVX512) || defined(MERCER_AVX2)
#include <immintrin.h>
#endif

namespace mercer {
namespace {

#if defined(MERCER_AVX512)
constexpr int pack_bytes = 64;
#elif defined(MERCER_AVX2)
constexpr int pack_bytes = 32;
#else
constexpr int pack_bytes = 16;
#endif

// Without a fused multiply-add the range reduction needs constants with shorter mantissas.
#if defined(MERCER_AVX512) || defined(MERCER_AVX2)
constexpr bool has_fused_multiply_add = true;
#else
constexpr bool has_fused_multiply_add = false;
#endif

template <class T>
constexpr int lanes = pack_bytes / int(sizeof(T));

MERCER_INLINE std::ptrdiff_t smaller(std::ptrdiff_t a, std::ptrdiff_t b) { return a < b ? a : b; }
MERCER_INLINE std::ptrdiff_t larger(std::ptrdiff_t a, std::ptrdiff_t b) { return a < b ? b : a; }

#ifdef MERCER_VECTOR_TYPES

template <class T>
struct PackTypes;

template <>
struct PackTypes<float> {
    typedef float Pack __attribute__((vector_size(pack_bytes)));
    typedef std::uint32_t Bits __attribute__((vector_size(pack_bytes)));
    typedef std::int32_t SignedBits __attribute__((vector_size(pack_bytes)));
};

template <>
struct PackTypes<double> {
    typedef double Pack __attribute__((vector_size(pack_bytes)));
    typedef std::uint64_t Bits __attribute__((vector_size(pack_bytes)));
    typedef std::int64_t SignedBits __attribute__((vector_size(pack_bytes)));
};

#else

template <class E>
struct Array {
    E lane[pack_bytes / sizeof(E)];
};

#define MERCER_LANEWISE(op)                                                                          \
    template <class E>                                                                               \
    MERCER_INLINE Array<E> operator op(Array<E> a, Array<E> b) {                                     \
        for (int i = 0; i < pack_bytes / int(sizeof(E)); ++i) a.lane[i] = a.lane[i] op b.lane[i];    \
        return a;                                                                                    \
    }                                                                                                \
    template <class E>                                                                               \
    MERCER_INLINE Array<E> operator op(Array<E> a, E b) {                                            \
        for (int i = 0; i < pack_bytes / int(sizeof(E)); ++i) a.lane[i] = a.lane[i] op b;            \
        return a;                                                                                    \
    }
MERCER_LANEWISE(+)
MERCER_LANEWISE(-)
MERCER_LANEWISE(*)
MERCER_LANEWISE(&)
MERCER_LANEWISE(|)
MERCER_LANEWISE(^)
MERCER_LANEWISE(<<)
MERCER_LANEWISE(>>)
#undef MERCER_LANEWISE

template <class T>
struct PackTypes;

template <>
struct PackTypes<float> {
    typedef Array<float> Pack;
    typedef Array<std::uint32_t> Bits;
};

template <>
struct PackTypes<double> {
    typedef Array<double> Pack;
    typedef Array<std::uint64_t> Bits;
};

#endif

template <class T>
using Pack = typename PackTypes<T>::Pack;
template <class T>
using Bits = typename PackTypes<T>::Bits;

template <class T>
struct WordOf;
template <>
struct WordOf<float> {
    typedef std::uint32_t type;
};
template <>
struct WordOf<double> {
    typedef std::uint64_t type;
};

// An unsigned integer as wide as T.
template <class T>
using Word = typename WordOf<T>::type;

template <class To, class From>
MERCER_INLINE To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps every bit");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

template <class T>
MERCER_INLINE Pack<T> load(const T* from) {
    Pack<T> pack;
    std::memcpy(&pack, from, sizeof pack);
    return pack;
}

template <class T>
MERCER_INLINE void store(T* to, Pack<T> pack) {
    std::memcpy(to, &pack, sizeof pack);
}

#ifdef MERCER_VECTOR_TYPES

template <class T>
MERCER_INLINE Pack<T> broadcast(T value) {
    return value - Pack<T>{};
}

// `if_odd` in the lanes where `integer` is odd, `if_even` in the others.
template <class T>
MERCER_INLINE Pack<T> select_odd(Bits<T> integer, Pack<T> if_odd, Pack<T> if_even) {
    typedef typename PackTypes<T>::SignedBits SignedBits;
    return SignedBits(integer << (8 * sizeof(T) - 1)) < 0 ? if_odd : if_even;
}

// `if_negative` in the lanes where x < 0, `otherwise` in the others, also where x is NaN.
template <class T>
MERCER_INLINE Pack<T> select_negative(Pack<T> x, Pack<T> if_negative, Pack<T> otherwise) {
    return x < Pack<T>{} ? if_negative : otherwise;
}

template <class T, int... index>
MERCER_INLINE Pack<T> shuffle(Pack<T> a, Pack<T> b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, index...);
#else
    return __builtin_shuffle(a, b, Bits<T>{Word<T>(index)...});
#endif
}

#else

template <class T>
MERCER_INLINE Pack<T> broadcast(T value) {
    Pack<T> pack;
    for (int i = 0; i < lanes<T>; ++i) pack.lane[i] = value;
    return pack;
}

template <class T>
MERCER_INLINE Pack<T> select_odd(Bits<T> integer, Pack<T> if_odd, Pack<T> if_even) {
    for (int i = 0; i < lanes<T>; ++i) if (integer.lane[i] & 1) if_even.lane[i] = if_odd.lane[i];
    return if_even;
}

template <class T>
MERCER_INLINE Pack<T> select_negative(Pack<T> x, Pack<T> if_negative, Pack<T> otherwise) {
    for (int i = 0; i < lanes<T>; ++i) if (x.lane[i] < 0) otherwise.lane[i] = if_negative.lane[i];
    return otherwise;
}

template <class T, int... index>
MERCER_INLINE Pack<T> shuffle(Pack<T> a, Pack<T> b) {
    return Pack<T>{{(index < lanes<T> ? a.lane[index % lanes<T>] : b.lane[index % lanes<T>])...}};
}

#endif

// a * b + c: one rounding where the instruction set has it, two elsewhere.
template <class T>
MERCER_INLINE Pack<T> multiply_add(Pack<T> a, Pack<T> b, Pack<T> c) {
#if defined(MERCER_AVX512)
    if constexpr (sizeof(T) == 4) return Pack<T>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
    else return Pack<T>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
#elif defined(MERCER_AVX2)
    if constexpr (sizeof(T) == 4) return Pack<T>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
    else return Pack<T>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
#else
    return a * b + c;
#endif
}

// Whether any bit of any lane is set.
template <class T>
MERCER_INLINE bool any_bit(Bits<T> bits) {
#if defined(MERCER_AVX512)
    return _mm512_test_epi32_mask(__m512i(bits), __m512i(bits)) != 0;
#elif defined(MERCER_AVX2)
    return !_mm256_testz_si256(__m256i(bits), __m256i(bits));
#else
    Word<T> word[lanes<T>];
    std::memcpy(word, &bits, sizeof word);
    Word<T> all = 0;
    for (int i = 0; i < lanes<T>; ++i) all |= word[i];
    return all != 0;
#endif
}

// The two packs, as two rows, with their off-diagonal squares of `side` lanes exchanged.
template <class T, int side, int... lane>
MERCER_INLINE void exchange_squares(Pack<T>& a, Pack<T>& b, std::integer_sequence<int, lane...>) {
    const Pack<T> upper = shuffle<T, ((lane & side) ? lanes<T> + lane - side : lane)...>(a, b);
    const Pack<T> lower = shuffle<T, ((lane & side) ? lanes<T> + lane : lane + side)...>(a, b);
    a = upper;
    b = lower;
}

// Transposes a square of `lanes` packs in registers.
template <class T, int side = 1>
MERCER_INLINE void transpose(Pack<T> (&row)[lanes<T>]) {
    if constexpr (side < lanes<T>) {
        MERCER_UNROLL
        for (int i = 0; i < lanes<T>; ++i)
            if (!(i & side))
                exchange_squares<T, side>(row[i], row[i + side], std::make_integer_sequence<int, lanes<T>>());
        transpose<T, 2 * side>(row);
    }
}

}  // namespace
}  // namespace mercer
