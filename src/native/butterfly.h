// Transposed butterfly matrices on a tile: one row of the data per lane, one pack per column.
//
// A butterfly is a tree of plane rotations. Factoring the larger of cosine and sine out of each rotation
// leaves one multiply-add per column and stride,
//     x[i] + multiplier[i] * x[i ^ stride]    at strides 1, 2, 4, ...,
// on a permutation of the columns; the factors are applied to each column at the end. The caller
// computes the permutation, the multipliers and the factors.
#pragma once

#include "hadamard.h"

namespace mercer {
namespace {

constexpr int bits_of(std::ptrdiff_t power_of_two) {
    int bits = 0;
    while ((std::ptrdiff_t(1) << bits) < power_of_two) ++bits;
    return bits;
}

// Rotates each group of `radix` packs at strides 1, 2, ..., radix / 2. Each stride has its own `count`
// multipliers; they are read from memory, because they do not all fit in registers.
template <class T, int radix, int stride = 1, int count>
MERCER_INLINE void rotate(Pack<T> (&a)[count], const T* multipliers) {
    if constexpr (stride < radix) {
        MERCER_UNROLL
        for (int i = 0; i < count; ++i) {
            if (i & stride) continue;
            const Pack<T> first = a[i];
            a[i] = multiply_add<T>(a[i + stride], broadcast(multipliers[i]), first);
            a[i + stride] = multiply_add<T>(first, broadcast(multipliers[i + stride]), a[i + stride]);
        }
        rotate<T, radix, 2 * stride>(a, multipliers + count);
    }
}

// Gathers the packs `order[0:columns]` of `in` and rotates neighboring ones.
template <class T, int radix>
MERCER_NOINLINE void gathering_pass(const T* in, const std::int32_t* order, const T* multipliers, T* out,
                                    std::ptrdiff_t columns) {
    for (std::ptrdiff_t first = 0; first < columns; first += fine_columns) {
        Pack<T> a[fine_columns];
        MERCER_UNROLL
        for (int i = 0; i < fine_columns; ++i) a[i] = load(in + std::ptrdiff_t(order[first + i]) * lanes<T>);
        rotate<T, radix>(a, multipliers);
        multipliers += fine_columns * bits_of(radix);
        MERCER_UNROLL
        for (int i = 0; i < fine_columns; ++i) store(out + (first + i) * lanes<T>, a[i]);
    }
}

// Rotates packs that are `pitch` elements apart, for `run` neighbors of each.
template <class T, int radix>
MERCER_NOINLINE void rotating_pass(T* packs, std::ptrdiff_t pitch, std::ptrdiff_t run, const T* multipliers) {
    for (std::ptrdiff_t j = 0; j < run; ++j) {
        Pack<T> a[radix];
        MERCER_UNROLL
        for (int i = 0; i < radix; ++i) a[i] = load(packs + j * lanes<T> + i * pitch);
        rotate<T, radix>(a, multipliers);
        multipliers += radix * bits_of(radix);
        MERCER_UNROLL
        for (int i = 0; i < radix; ++i) store(packs + j * lanes<T> + i * pitch, a[i]);
    }
}

// The rotations of a tile, in the passes of a Hadamard transform with increasing strides. Each part of
// the tile goes through all the passes that need no other part before the next part is started, so that
// it stays in cache.
//
// Multipliers are stored in the order in which the passes read them, which is the order in which
// `for_each_multiplier` visits them.
template <class T>
class Rotations {
  public:
    explicit Rotations(std::ptrdiff_t width) : passes_(width) {}

    const TileLayout& layout() const { return passes_.layout; }

    std::ptrdiff_t multipliers() const {
        std::ptrdiff_t levels = bits_of(passes_.fine_radix);
        for (int i = 0; i < passes_.count; ++i) levels += bits_of(passes_.strided[i].radix);
        return levels * layout().columns;
    }

    // Calls `visit(level, column)` for each multiplier of a tile, in storage order. The multiplier belongs
    // to `column` at stride 2^level.
    template <class Visit>
    void for_each_multiplier(const Visit& visit) const {
        visit_part(passes_.count - 1, 0, visit);
    }

    // Rotates the packs `order` of `in`.
    void run(const T* in, const std::int32_t* order, const T* multipliers, T* tile) const {
        part(passes_.count - 1, 0, in, order, multipliers, tile);
    }

  private:
    // Number of columns whose passes up to the given one use no other columns.
    std::ptrdiff_t part_columns(int pass) const {
        return pass == 0 ? layout().block() : passes_.strided[pass].radix * passes_.strided[pass].stride;
    }

    template <class Visit>
    void visit_part(int which, std::ptrdiff_t first, const Visit& visit) const {
        const Passes::Strided pass = passes_.strided[which];
        const std::ptrdiff_t end = first + part_columns(which);
        if (which == 0) {
            for (std::ptrdiff_t column = first; column < end; column += fine_columns)
                for (int level = 0; level < bits_of(passes_.fine_radix); ++level)
                    for (int i = 0; i < fine_columns; ++i) visit(level, column + i);
        } else {
            for (std::ptrdiff_t inner = first; inner < end; inner += pass.stride) visit_part(which - 1, inner, visit);
        }
        for (std::ptrdiff_t base = first; base < end; base += pass.radix * pass.stride)
            for (std::ptrdiff_t column = base; column < base + pass.stride; ++column)
                for (int level = 0; level < bits_of(pass.radix); ++level)
                    for (int i = 0; i < pass.radix; ++i)
                        visit(bits_of(pass.stride) + level, column + i * pass.stride);
    }

    // This and `neighbors` return a pointer to the next multipliers.
    const T* part(int which, std::ptrdiff_t first, const T* in, const std::int32_t* order, const T* multipliers,
                  T* tile) const {
        const Passes::Strided pass = passes_.strided[which];
        const std::ptrdiff_t end = first + part_columns(which);
        if (which == 0) {
            multipliers = gather(in, order + first, multipliers, tile + layout().position(first) * lanes<T>);
        } else {
            for (std::ptrdiff_t inner = first; inner < end; inner += pass.stride)
                multipliers = part(which - 1, inner, in, order, multipliers, tile);
        }
        if (pass.radix == 1) return multipliers;
        const std::ptrdiff_t run = smaller(pass.stride, layout().block());
        for (std::ptrdiff_t base = first; base < end; base += pass.radix * pass.stride)
            for (std::ptrdiff_t column = base; column < base + pass.stride; column += run)
                multipliers = neighbors(pass, tile + layout().position(column) * lanes<T>, run, multipliers);
        return multipliers;
    }

    const T* gather(const T* in, const std::int32_t* order, const T* multipliers, T* block) const {
        const std::ptrdiff_t columns = layout().block();
        switch (passes_.fine_radix) {
            case 1: gathering_pass<T, 1>(in, order, multipliers, block, columns); break;
            case 2: gathering_pass<T, 2>(in, order, multipliers, block, columns); break;
            case 4: gathering_pass<T, 4>(in, order, multipliers, block, columns); break;
            case 8: gathering_pass<T, 8>(in, order, multipliers, block, columns); break;
            case 16: gathering_pass<T, fine_columns>(in, order, multipliers, block, columns); break;
        }
        return multipliers + columns * bits_of(passes_.fine_radix);
    }

    const T* neighbors(Passes::Strided pass, T* packs, std::ptrdiff_t run, const T* multipliers) const {
        const std::ptrdiff_t pitch = layout().position(pass.stride) * lanes<T>;
        switch (pass.radix) {
            case 2: rotating_pass<T, 2>(packs, pitch, run, multipliers); break;
            case 4: rotating_pass<T, 4>(packs, pitch, run, multipliers); break;
            case 8: rotating_pass<T, 8>(packs, pitch, run, multipliers); break;
            case 16: rotating_pass<T, fine_columns>(packs, pitch, run, multipliers); break;
        }
        return multipliers + run * pass.radix * bits_of(pass.radix);
    }

    Passes passes_;
};

}  // namespace
}  // namespace mercer
