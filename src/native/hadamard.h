// Repeated sign flips and Hadamard transforms of a tile: one row of the data per lane, one pack per
// column, so that a butterfly of columns works on all rows of the tile at once.
//
// A transform visits its strides in order, so that rounding does not depend on how the strides are
// grouped into passes, and every instruction set gives exactly the same results.
#pragma once

#include "lanes.h"

namespace mercer {
namespace {

// Packs that a butterfly holds in registers: half of the registers, so that nothing spills.
#if defined(MERCER_AVX512) || defined(__aarch64__)
constexpr int fine_columns = 16;
#else
constexpr int fine_columns = 8;
#endif

// Columns that are written out together, one row after the other.
constexpr int written_columns = 64;

// Transforms narrower than this share a tile, which holds one transform or several side by side.
MERCER_INLINE std::ptrdiff_t tile_columns(std::ptrdiff_t width) {
    return width < written_columns ? written_columns : width;
}

// Position of the multiplication by signs in a butterfly: H, H S, H S H or S H.
enum class Signs { none, before, between, after };

// Whether strides grow (from 1 up) or shrink.
enum class Order { up, down };

// A difference computed as a multiply-add is the same number, and runs in parallel with the sum on
// processors that have separate adders and multipliers.
template <class T, int half, int count>
MERCER_INLINE void sums_and_differences(Pack<T> (&a)[count]) {
    const Pack<T> minus_one = broadcast(T(-1));
    MERCER_UNROLL
    for (int i = 0; i < count; ++i) {
        if (i & half) continue;
        const Pack<T> sum = a[i] + a[i + half];
        a[i + half] = multiply_add<T>(a[i + half], minus_one, a[i]);
        a[i] = sum;
    }
}

// Transforms each group of `radix` packs.
template <class T, Order order, int radix, int count>
MERCER_INLINE void hadamard(Pack<T> (&a)[count]) {
    if constexpr (radix > 1) {
        if constexpr (order == Order::down) sums_and_differences<T, radix / 2>(a);
        hadamard<T, order, radix / 2>(a);
        if constexpr (order == Order::up) sums_and_differences<T, radix / 2>(a);
    }
}

template <class T, Signs place, Order order, int radix, int count>
MERCER_INLINE void signed_hadamard(Pack<T> (&a)[count], const T* signs, std::ptrdiff_t sign_stride) {
    // Signs after a transform are applied where the strides change direction, or end.
    if constexpr (place == Signs::between || place == Signs::after) {
        constexpr Order arriving = order == Order::up ? Order::down : Order::up;
        hadamard<T, arriving, radix>(a);
    }
    if constexpr (place != Signs::none) {
        MERCER_UNROLL
        for (int i = 0; i < count; ++i) a[i] = a[i] * signs[i * sign_stride];
    }
    if constexpr (place != Signs::after) hadamard<T, order, radix>(a);
}

// Columns of a tile in memory. The unused pack after each block prevents columns that are a power of two
// apart from mapping to the same cache set.
struct TileLayout {
    std::ptrdiff_t columns;
    int block_bits;

    MERCER_INLINE std::ptrdiff_t block() const { return std::ptrdiff_t(1) << block_bits; }
    MERCER_INLINE std::ptrdiff_t position(std::ptrdiff_t column) const { return column + (column >> block_bits); }
};

// Butterflies on `radix` columns that are `stride` apart; `in` may be `out`.
template <class T, Signs place, Order order, int radix>
MERCER_NOINLINE void strided_pass(const T* in, const T* signs, T* out, std::ptrdiff_t columns,
                                  std::ptrdiff_t stride, TileLayout layout) {
    const std::ptrdiff_t pitch = layout.position(stride) * lanes<T>;
    const std::ptrdiff_t run = stride < layout.block() ? stride : layout.block();
    for (std::ptrdiff_t base = 0; base < columns; base += radix * stride) {
        for (std::ptrdiff_t first = base; first < base + stride; first += run) {
            const std::ptrdiff_t offset = layout.position(first) * lanes<T>;
            for (std::ptrdiff_t j = 0; j < run; ++j) {
                Pack<T> a[radix];
                MERCER_UNROLL
                for (int i = 0; i < radix; ++i) a[i] = load(in + offset + j * lanes<T> + i * pitch);
                signed_hadamard<T, place, order, radix>(a, signs + first + j, stride);
                MERCER_UNROLL
                for (int i = 0; i < radix; ++i) store(out + offset + j * lanes<T> + i * pitch, a[i]);
            }
        }
    }
}

template <class T, Signs place, Order order>
MERCER_INLINE void strided_pass(const T* in, const T* signs, T* out, std::ptrdiff_t columns,
                                std::ptrdiff_t stride, TileLayout layout, int radix) {
    switch (radix) {
        case 1: strided_pass<T, place, order, 1>(in, signs, out, columns, stride, layout); break;
        case 2: strided_pass<T, place, order, 2>(in, signs, out, columns, stride, layout); break;
        case 4: strided_pass<T, place, order, 4>(in, signs, out, columns, stride, layout); break;
        case 8: strided_pass<T, place, order, 8>(in, signs, out, columns, stride, layout); break;
        case 16: strided_pass<T, place, order, fine_columns>(in, signs, out, columns, stride, layout); break;
    }
}

// Butterflies on neighboring columns.
template <class T, Signs place, int radix>
MERCER_NOINLINE void fine_pass(const T* in, const T* signs, T* out, std::ptrdiff_t columns) {
    for (std::ptrdiff_t first = 0; first < columns; first += fine_columns) {
        Pack<T> a[fine_columns];
        MERCER_UNROLL
        for (int i = 0; i < fine_columns; ++i) a[i] = load(in + (first + i) * lanes<T>);
        signed_hadamard<T, place, Order::up, radix>(a, signs + first, 1);
        MERCER_UNROLL
        for (int i = 0; i < fine_columns; ++i) store(out + (first + i) * lanes<T>, a[i]);
    }
}

template <class T, Signs place>
MERCER_INLINE void fine_pass(const T* in, const T* signs, T* out, std::ptrdiff_t columns, int radix) {
    switch (radix) {
        case 1: fine_pass<T, place, 1>(in, signs, out, columns); break;
        case 2: fine_pass<T, place, 2>(in, signs, out, columns); break;
        case 4: fine_pass<T, place, 4>(in, signs, out, columns); break;
        case 8: fine_pass<T, place, 8>(in, signs, out, columns); break;
        case 16: fine_pass<T, place, fine_columns>(in, signs, out, columns); break;
    }
}

// The last butterflies, on `written_columns` columns; `finish(values, column)` is applied to the results,
// which are then stored by rows.
template <class T, int radix, class Finish>
MERCER_INLINE void finishing_pass(const T* in, T* rows, const Finish& finish) {
    for (int first = 0; first < written_columns; first += fine_columns) {
        Pack<T> a[fine_columns];
        MERCER_UNROLL
        for (int i = 0; i < fine_columns; ++i) a[i] = load(in + (first + i) * lanes<T>);
        hadamard<T, Order::down, radix>(a);
        MERCER_UNROLL
        for (int column = 0; column < fine_columns; column += lanes<T>) {
            Pack<T> square[lanes<T>];
            MERCER_UNROLL
            for (int i = 0; i < lanes<T>; ++i) square[i] = a[column + i];
            transpose<T>(square);
            MERCER_UNROLL
            for (int i = 0; i < lanes<T>; ++i)
                store(rows + i * written_columns + first + column, finish(square[i], first + column));
        }
    }
}

// A butterfly of a given width as passes: neighboring columns first, then one or more strided passes.
// With more than one of those, the finest two run block by block; the first then has radix 8, so that a
// block of 8 * fine_columns packs stays in the first-level cache.
struct Passes {
    struct Strided {
        std::ptrdiff_t stride;
        int radix;
    };

    explicit Passes(std::ptrdiff_t width) : layout{tile_columns(width), 0} {
        fine_radix = int(width < fine_columns ? width : fine_columns);
        std::ptrdiff_t radix_left = width / fine_radix;
        std::ptrdiff_t stride = fine_columns;
        count = 0;
        do {
            const int most = count == 0 && radix_left > fine_columns ? 8 : fine_columns;
            const int radix = int(radix_left < most ? radix_left : most);
            strided[count++] = {stride, radix};
            stride *= radix;
            radix_left /= radix;
        } while (radix_left > 1);
        const std::ptrdiff_t block = count == 1 ? layout.columns : strided[1].stride;
        while (std::ptrdiff_t(1) << layout.block_bits < block) ++layout.block_bits;
    }

    TileLayout layout;
    int fine_radix;
    int count;            // of strided passes, at least one
    Strided strided[24];  // enough for any width that an address can hold
};

// Consecutive transforms run in opposite directions, so that the last butterfly of one, the signs and
// the first butterfly of the next act on the same columns and are one pass over memory. The last
// transform ends with neighboring columns, which lets the caller use them while they are in cache.
template <class T>
class Transform {
  public:
    explicit Transform(std::ptrdiff_t width) : passes_(width) {}

    const TileLayout& layout() const { return passes_.layout; }

    // Applies `repeats` rows of signs to `in`, each followed by a transform, except for the part of the last
    // transform that `finish_block` and `finish_columns` do.
    void begin(const T* in, const T* signs, std::ptrdiff_t repeats, T* tile) const {
        bool at_top = repeats % 2 == 1;
        if (at_top) coarse<Signs::before>(in, signs, tile);
        else fine<Signs::before>(in, signs, tile);
        for (std::ptrdiff_t i = 1; i < repeats; ++i) {
            signs += layout().columns;
            at_top = !at_top;
            if (at_top) coarse<Signs::between>(tile, signs, tile);
            else fine<Signs::between>(tile, signs, tile);
        }
    }

    // Signs, one complete transform and signs again; `signs` has two rows.
    void mix(const T* in, const T* signs, T* tile) const {
        coarse<Signs::before>(in, signs, tile);
        fine<Signs::after>(tile, signs + layout().columns, tile);
    }

    void finish_block(T* block) const {
        if (passes_.count > 1) in_block<Order::down>(block);
    }

    template <class Finish>
    MERCER_INLINE void finish_columns(const T* columns, T* rows, const Finish& finish) const {
        switch (passes_.fine_radix) {
            case 1: finishing_pass<T, 1>(columns, rows, finish); break;
            case 2: finishing_pass<T, 2>(columns, rows, finish); break;
            case 4: finishing_pass<T, 4>(columns, rows, finish); break;
            case 8: finishing_pass<T, 8>(columns, rows, finish); break;
            case 16: finishing_pass<T, fine_columns>(columns, rows, finish); break;
        }
    }

  private:
    template <Signs place, Order order>
    void strided(const T* in, const T* signs, T* tile, int i) const {
        const Passes::Strided pass = passes_.strided[i];
        strided_pass<T, place, order>(in, signs, tile, layout().columns, pass.stride, layout(), pass.radix);
    }

    template <Order order>
    void in_block(T* block) const {
        const Passes::Strided pass = passes_.strided[0];
        strided_pass<T, Signs::none, order>(block, nullptr, block, layout().block(), pass.stride, layout(), pass.radix);
    }

    // The passes across blocks, signs at the largest stride.
    template <Signs place>
    void coarse(const T* in, const T* signs, T* tile) const {
        const int top = passes_.count - 1;
        if (place == Signs::between)
            for (int i = 1; i < top; ++i) strided<Signs::none, Order::up>(in, nullptr, tile, i);
        strided<place, Order::down>(in, signs, tile, top);
        for (int i = top - 1; i > 0; --i) strided<Signs::none, Order::down>(tile, nullptr, tile, i);
    }

    // The passes within blocks, signs at stride 1.
    template <Signs place>
    void fine(const T* in, const T* signs, T* tile) const {
        const bool blocked = passes_.count > 1;
        for (std::ptrdiff_t first = 0; first < layout().columns; first += layout().block()) {
            const std::ptrdiff_t offset = layout().position(first) * lanes<T>;
            if (blocked && place != Signs::before) in_block<Order::down>(tile + offset);
            fine_pass<T, place>(in + offset, signs + first, tile + offset, layout().block(), passes_.fine_radix);
            if (blocked && place != Signs::after) in_block<Order::up>(tile + offset);
        }
    }

    Passes passes_;
};

}  // namespace
}  // namespace mercer
