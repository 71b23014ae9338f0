// One kernel set. This file is compiled once per instruction set, each time with MERCER_KERNEL_SET
// naming the table that it defines.
#include "butterfly.h"
#include "dense.h"
#include "functions.h"
#include "hadamard.h"
#include "kernels.h"
#include "search.h"
#include "sincos.h"
#include "sparse.h"
#include "systems.h"

namespace mercer {
namespace {

using std::ptrdiff_t;

template <class T>
MERCER_INLINE void copy(T* to, const T* from, ptrdiff_t count) {
    std::memcpy(to, from, size_t(count) * sizeof(T));
}

// Writes `cosines` cosines and `sines` sines of a chunk that the end of the row may cut short. All of
// `angles[0:chunk]` is read.
template <class T>
void write_short_pairs(const T* angles, T scale, T* cosine_out, ptrdiff_t cosines, T* sine_out, ptrdiff_t sines) {
    T cosine_chunk[chunk], sine_chunk[chunk];
    pairs_of_chunks(angles, chunk, 1, scale, cosine_chunk, sine_chunk, chunk);
    copy(cosine_out, cosine_chunk, cosines);
    copy(sine_out, sine_chunk, sines);
}

// Returns how many of the `chunk` columns of a chunk exist in a row of `columns` columns.
MERCER_INLINE ptrdiff_t columns_in_chunk(ptrdiff_t columns, ptrdiff_t first) {
    return larger(0, smaller(chunk, columns - first));
}

template <class T>
void sincos_pairs(Rows<const T> angles, T scale, Rows<T> out) {
    const ptrdiff_t frequencies = angles.columns;
    const ptrdiff_t sines = out.columns - frequencies;
    const ptrdiff_t whole_chunks = sines / chunk;
    for (ptrdiff_t i = 0; i < angles.rows; ++i) {
        const T* angle = angles.data + i * angles.stride;
        T* cosine_out = out.data + i * out.stride;
        T* sine_out = cosine_out + frequencies;
        pairs_of_chunks(angle, chunk, whole_chunks, scale, cosine_out, sine_out, chunk);
        for (ptrdiff_t first = whole_chunks * chunk; first < frequencies; first += chunk) {
            const ptrdiff_t count = columns_in_chunk(frequencies, first);
            T padded[chunk] = {};
            copy(padded, angle + first, count);
            write_short_pairs(padded, scale, cosine_out + first, count, sine_out + first,
                              columns_in_chunk(sines, first));
        }
    }
}

template <class T>
void cosines(Rows<const T> angles, const T* phases, T scale, Rows<T> out) {
    for (ptrdiff_t i = 0; i < angles.rows; ++i) {
        for (ptrdiff_t column = 0; column < angles.columns; column += chunk) {
            const ptrdiff_t count = columns_in_chunk(angles.columns, column);
            const T* angle = angles.data + i * angles.stride + column;
            T* result = out.data + i * out.stride + column;
            // A copy of the angles, because the results may replace them before a repair reads them.
            T shifted[chunk] = {};
            for (ptrdiff_t j = 0; j < count; ++j) shifted[j] = angle[j] + phases[column + j];
            if (count == chunk) {
                cosines_of_chunk(shifted, scale, result);
            } else {
                T cosine_chunk[chunk];
                cosines_of_chunk(shifted, scale, cosine_chunk);
                copy(result, cosine_chunk, count);
            }
        }
    }
}

// Layout of the scratch memory of the Hadamard kernels. All offsets are in elements and are
// multiples of a pack.
template <class T>
struct Scratch {
    Scratch(SignBlocks<T> signs, const TileLayout& layout)
        : tiles((signs.blocks * signs.width + layout.columns - 1) / layout.columns),
          tile((layout.position(layout.columns)) * lanes<T>),
          rows(2 * tile),
          signs(rows + written_columns * lanes<T>),
          radii(this->signs + tiles * signs.repeats * layout.columns),
          size(radii + tiles * layout.columns) {}

    ptrdiff_t tiles;  // tiles that a row of output needs
    ptrdiff_t tile;   // the transforms of the interleaved rows of X, which come first
    ptrdiff_t rows;   // transformed columns, no longer interleaved
    ptrdiff_t signs;  // scaled signs, (tiles, repeats, columns of a tile)
    ptrdiff_t radii;  // padded radii, (tiles * columns of a tile)
    ptrdiff_t size;
};

template <class T>
ptrdiff_t hadamard_scratch(SignBlocks<T> signs) {
    return Scratch<T>(signs, Transform<T>(signs.width).layout()).size;
}

// Stores the signs in the order in which tiles read them, times the largest power of two in each
// 1/sqrt(width), so that every product with them is exact. Returns the remaining factor.
template <class T>
T scale_signs(SignBlocks<T> signs, ptrdiff_t tiles, T* scaled) {
    int bits = 0;
    while ((ptrdiff_t(1) << bits) < signs.width) ++bits;
    const ptrdiff_t per_tile = tile_columns(signs.width) / signs.width;
    for (ptrdiff_t tile = 0; tile < tiles; ++tile) {
        bool half_bit_owed = false;
        for (ptrdiff_t repeat = 0; repeat < signs.repeats; ++repeat) {
            const int halvings = (bits + (half_bit_owed ? 1 : 0)) / 2;
            half_bit_owed ^= bits % 2 == 1;
            const T factor = T(1) / T(ptrdiff_t(1) << halvings);
            for (ptrdiff_t block = tile * per_tile; block < (tile + 1) * per_tile; ++block) {
                const T* from = signs.data + block * signs.block_stride + repeat * signs.repeat_stride;
                const bool there = block < signs.blocks;
                for (ptrdiff_t j = 0; j < signs.width; ++j) *scaled++ = there ? factor * from[j] : T(0);
            }
        }
    }
    const bool odd = bits % 2 == 1 && signs.repeats % 2 == 1;
    return odd ? T(0.70710678118654752440) : T(1);
}

// Interleaves up to `lanes` rows, padded with zeros to `width` columns, and repeats them until the
// tile is full.
template <class T>
void load_tile(Rows<const T> X, ptrdiff_t first_row, ptrdiff_t width, const TileLayout& layout, T* data) {
    const auto place = [&](ptrdiff_t column) { return data + layout.position(column) * lanes<T>; };
    const ptrdiff_t rows = smaller(lanes<T>, X.rows - first_row);
    const T* from = X.data + first_row * X.stride;
    // Complete squares by an unrolled loop, whose loads walk along one row each, as prefetchers expect.
    const ptrdiff_t whole = rows == lanes<T> ? X.columns - X.columns % lanes<T> : 0;
    for (ptrdiff_t column = 0; column < whole; column += lanes<T>) {
        Pack<T> square[lanes<T>];
        MERCER_UNROLL
        for (int i = 0; i < lanes<T>; ++i) square[i] = load(from + i * X.stride + column);
        transpose<T>(square);
        MERCER_UNROLL
        for (int j = 0; j < lanes<T>; ++j) store(place(column + j), square[j]);
    }
    for (ptrdiff_t column = whole; column < X.columns; column += lanes<T>) {
        const ptrdiff_t count = smaller(lanes<T>, X.columns - column);
        Pack<T> square[lanes<T>] = {};
        for (ptrdiff_t i = 0; i < rows; ++i)
            std::memcpy(&square[i], from + i * X.stride + column, size_t(count) * sizeof(T));
        transpose<T>(square);
        for (int j = 0; j < lanes<T>; ++j) store(place(column + j), square[j]);
    }
    for (ptrdiff_t column = X.columns; column < width; ++column) store(place(column), Pack<T>{});
    for (ptrdiff_t column = width; column < layout.columns; ++column)
        store(place(column), load(place(column - width)));
}

// Computes every tile of every `lanes` rows and passes the finished columns, `written_columns` from each
// row, to `writer.write(row, count, column, values)`; `finish(values, column)` is the last operation on
// them.
template <class T, class Finish, class Writer>
MERCER_INLINE void for_each_chunk(Rows<const T> X, SignBlocks<T> signs, const Transform<T>& transform, T* scratch,
                                  ptrdiff_t out_columns, const Finish& finish, const Writer& writer) {
    const TileLayout& layout = transform.layout();
    const Scratch<T> part(signs, layout);
    T* tile = scratch + part.tile;
    T* rows = scratch + part.rows;
    for (ptrdiff_t row = 0; row < X.rows; row += lanes<T>) {
        const ptrdiff_t row_count = smaller(lanes<T>, X.rows - row);
        load_tile(X, row, signs.width, layout, scratch);
        const T* tile_signs = scratch + part.signs;
        for (ptrdiff_t first = 0; first < out_columns; first += layout.columns) {
            transform.begin(scratch, tile_signs, signs.repeats, tile);
            tile_signs += signs.repeats * layout.columns;
            const ptrdiff_t end = smaller(layout.columns, out_columns - first);
            for (ptrdiff_t column = 0; column < end; column += written_columns) {
                T* packs = tile + layout.position(column) * lanes<T>;
                if (column % layout.block() == 0) transform.finish_block(packs);
                transform.finish_columns(packs, rows, [&](Pack<T> values, ptrdiff_t offset) {
                    return finish(values, first + column + offset);
                });
                writer.write(row, row_count, first + column, rows);
            }
        }
    }
}

template <class T>
struct ResultWriter {
    explicit ResultWriter(Result<T> result)
        : apply(result.product ? chunk_function<T, true>(result.function) : chunk_function<T, false>(result.function)),
          scale(result.scale),
          out(result.rows) {}

    MERCER_INLINE void write(ptrdiff_t row, ptrdiff_t count, ptrdiff_t column, const T* values) const {
        const ptrdiff_t columns = columns_in_chunk(out.columns, column);
        T* to = out.data + row * out.stride + column;
        if (columns == chunk) {
            apply(values, written_columns, count, scale, to, out.stride);
            return;
        }
        for (ptrdiff_t i = 0; i < count; ++i, to += out.stride) {
            T padded[chunk] = {};
            copy(padded, to, columns);
            apply(values + i * written_columns, written_columns, 1, scale, padded, chunk);
            copy(to, padded, columns);
        }
    }

    ApplyToChunks<T> apply;
    T scale;
    Rows<T> out;
};

template <class T>
struct PairWriter {
    ptrdiff_t frequencies;
    T scale;
    Rows<T> out;

    MERCER_INLINE void write(ptrdiff_t row, ptrdiff_t count, ptrdiff_t column, const T* angles) const {
        const ptrdiff_t sines = columns_in_chunk(out.columns - frequencies, column);
        T* cosine_out = out.data + row * out.stride + column;
        T* sine_out = cosine_out + frequencies;
        if (sines == chunk) {
            pairs_of_chunks(angles, written_columns, count, scale, cosine_out, sine_out, out.stride);
            return;
        }
        const ptrdiff_t cosines = columns_in_chunk(frequencies, column);
        for (ptrdiff_t i = 0; i < count; ++i)
            write_short_pairs(angles + i * written_columns, scale, cosine_out + i * out.stride, cosines,
                              sine_out + i * out.stride, sines);
    }
};

template <class T>
struct CosineWriter {
    T scale;
    Rows<T> out;

    MERCER_INLINE void write(ptrdiff_t row, ptrdiff_t count, ptrdiff_t column, const T* angles) const {
        const ptrdiff_t columns = columns_in_chunk(out.columns, column);
        T* to = out.data + row * out.stride + column;
        for (ptrdiff_t i = 0; i < count; ++i, to += out.stride, angles += written_columns) {
            if (columns == chunk) {
                cosines_of_chunk(angles, scale, to);
            } else {
                T cosine_chunk[chunk];
                cosines_of_chunk(angles, scale, cosine_chunk);
                copy(to, cosine_chunk, columns);
            }
        }
    }
};

static_assert(written_columns == chunk, "finished columns are a chunk of angles");

// `radii` may be null.
template <class T, class Writer>
MERCER_INLINE void write_sign_hadamard(Rows<const T> X, SignBlocks<T> signs, const T* radii, ptrdiff_t out_columns,
                                       T* scratch, const Writer& writer) {
    const Transform<T> transform(signs.width);
    const Scratch<T> part(signs, transform.layout());
    const T factor = scale_signs(signs, part.tiles, scratch + part.signs);
    T* padded_radii = scratch + part.radii;
    for (ptrdiff_t j = 0; j < part.tiles * transform.layout().columns; ++j)
        padded_radii[j] = j >= out_columns ? T(0) : radii ? radii[j] : T(1);
    const auto finish = [=](Pack<T> values, ptrdiff_t column) {
        return values * factor * load(padded_radii + column);
    };
    for_each_chunk(X, signs, transform, scratch, out_columns, finish, writer);
}

template <class T>
void sign_hadamard(Rows<const T> X, SignBlocks<T> signs, const T* radii, Result<T> result, T* scratch) {
    write_sign_hadamard(X, signs, radii, result.rows.columns, scratch, ResultWriter<T>(result));
}

template <class T>
void sign_hadamard_pairs(Rows<const T> X, SignBlocks<T> signs, const T* radii, ptrdiff_t frequencies, T scale,
                         Rows<T> out, T* scratch) {
    write_sign_hadamard(X, signs, radii, frequencies, scratch, PairWriter<T>{frequencies, scale, out});
}

// Layout of the scratch memory of the butterflies, in elements.
template <class T>
struct ButterflyScratch {
    ButterflyScratch(const Butterflies<T>& butterflies, const Rotations<T>& rotations)
        : columns(rotations.layout().columns),
          tiles((butterflies.blocks * butterflies.width + columns - 1) / columns),
          mixed(rotations.layout().position(columns) * lanes<T>),
          tile(2 * mixed),
          rows(3 * mixed),
          signs(rows + written_columns * lanes<T>),
          multipliers(signs + 2 * columns),
          factors(multipliers + tiles * rotations.multipliers()),
          order(factors + tiles * columns),
          size(order + tiles * columns) {}

    ptrdiff_t columns;      // of a tile
    ptrdiff_t tiles;        // tiles that a row of output needs
    ptrdiff_t mixed;        // the interleaved rows after signs, transform and signs; the rows themselves are at 0
    ptrdiff_t tile;         // their rotations
    ptrdiff_t rows;         // rotated columns, no longer interleaved
    ptrdiff_t signs;        // scaled signs, (2, columns)
    ptrdiff_t multipliers;  // in the order in which passes read them, tile by tile
    ptrdiff_t factors;      // of the results, (tiles, columns)
    ptrdiff_t order;        // of the packs, (tiles, columns), 32-bit integers
    ptrdiff_t size;
};

template <class T>
ptrdiff_t butterfly_scratch(Butterflies<T> butterflies) {
    return ButterflyScratch<T>(butterflies, Rotations<T>(butterflies.width)).size;
}

// Fills the part of the scratch memory that does not depend on the rows. `radii` may be null; columns
// from `out_columns` on are zero.
template <class T>
void prepare(Rows<const T> signs, const Butterflies<T>& butterflies, const Rotations<T>& rotations, const T* radii,
             ptrdiff_t out_columns, T* scratch) {
    const ButterflyScratch<T> part(butterflies, rotations);
    const ptrdiff_t width = butterflies.width;
    const int bits = bits_of(width);  // shifts, because divisions would dominate the cost

    // The copies of the rows that fill up a narrow tile are not used, so their signs are zero.
    T* first_signs = scratch + part.signs;
    T* second_signs = first_signs + part.columns;
    const T mixing_factor = scale_signs(SignBlocks<T>{signs.data, 1, 1, width, 0, 0}, 1, first_signs);
    for (ptrdiff_t j = 0; j < part.columns; ++j) second_signs[j] = j < width ? signs.data[signs.stride + j] : T(0);

    T* multiplier = scratch + part.multipliers;
    T* factor = scratch + part.factors;
    auto* order = reinterpret_cast<std::int32_t*>(scratch + part.order);
    for (ptrdiff_t tile = 0; tile < part.tiles; ++tile) {
        const ptrdiff_t first = tile * part.columns;
        rotations.for_each_multiplier([&](int level, ptrdiff_t tile_column) {
            const ptrdiff_t column = first + tile_column, block = column >> bits;
            const bool there = block < butterflies.blocks;
            const T* from = butterflies.multipliers + block * butterflies.multiplier_block_stride +
                            level * butterflies.multiplier_level_stride;
            *multiplier++ = there ? from[column & (width - 1)] : T(0);
        });
        for (ptrdiff_t column = first; column < first + part.columns; ++column) {
            const ptrdiff_t block = column >> bits, j = column & (width - 1);
            const bool there = block < butterflies.blocks;
            const ptrdiff_t from = there ? butterflies.order[block * butterflies.order_stride + j] : 0;
            *order++ = std::int32_t(rotations.layout().position(from));
            const T own = there ? butterflies.factors[block * butterflies.factor_stride + j] * mixing_factor : T(0);
            const T radius = column >= out_columns ? T(0) : radii ? radii[column] : T(1);
            *factor++ = own * radius;
        }
    }
}

// As `for_each_chunk`; `radii` may be null.
template <class T, class Writer>
MERCER_INLINE void for_each_rotated_chunk(Rows<const T> X, Rows<const T> signs, const Butterflies<T>& butterflies,
                                          const T* radii, ptrdiff_t out_columns, T* scratch, const Writer& writer) {
    const Transform<T> transform(butterflies.width);
    const Rotations<T> rotations(butterflies.width);
    const ButterflyScratch<T> part(butterflies, rotations);
    const TileLayout& layout = rotations.layout();
    prepare(signs, butterflies, rotations, radii, out_columns, scratch);
    T* mixed = scratch + part.mixed;
    T* tile = scratch + part.tile;
    T* rows = scratch + part.rows;
    for (ptrdiff_t row = 0; row < X.rows; row += lanes<T>) {
        const ptrdiff_t row_count = smaller(lanes<T>, X.rows - row);
        load_tile(X, row, butterflies.width, layout, scratch);
        transform.mix(scratch, scratch + part.signs, mixed);
        const T* multipliers = scratch + part.multipliers;
        const T* factors = scratch + part.factors;
        const auto* order = reinterpret_cast<const std::int32_t*>(scratch + part.order);
        for (ptrdiff_t first = 0; first < out_columns; first += layout.columns) {
            const ptrdiff_t columns = smaller(layout.columns, out_columns - first);
            rotations.run(mixed, order, multipliers, tile);
            for (ptrdiff_t column = 0; column < columns; column += written_columns) {
                const T* packs = tile + layout.position(column) * lanes<T>;
                finishing_pass<T, 1>(packs, rows, [&](Pack<T> values, ptrdiff_t offset) {
                    return values * load(factors + column + offset);
                });
                writer.write(row, row_count, first + column, rows);
            }
            multipliers += rotations.multipliers();
            factors += layout.columns;
            order += layout.columns;
        }
    }
}

template <class T>
void butterfly(Rows<const T> X, Rows<const T> signs, Butterflies<T> butterflies, const T* radii, Result<T> result,
               T* scratch) {
    const ResultWriter<T> writer(result);
    for_each_rotated_chunk(X, signs, butterflies, radii, result.rows.columns, scratch, writer);
}

template <class T>
void butterfly_pairs(Rows<const T> X, Rows<const T> signs, Butterflies<T> butterflies, const T* radii,
                     ptrdiff_t frequencies, T scale, Rows<T> out, T* scratch) {
    const PairWriter<T> writer{frequencies, scale, out};
    for_each_rotated_chunk(X, signs, butterflies, radii, frequencies, scratch, writer);
}

// Layout of the scratch memory of the dense kernels, in elements.
template <class T>
struct DenseScratch {
    explicit DenseScratch(Rows<const T> weights)
        : columns(padded_columns(weights.columns)),
          phases(columns * weights.rows),
          rows(phases + columns),
          size(rows + grouped_rows * written_columns) {}

    ptrdiff_t columns;  // of the packed weights, which come first
    ptrdiff_t phases;   // padded
    ptrdiff_t rows;     // finished columns of a group of rows
    ptrdiff_t size;
};

template <class T>
ptrdiff_t dense_scratch(Rows<const T> weights) {
    return DenseScratch<T>(weights).size;
}

// As `for_each_chunk`, for dense products. The weights are packed once, then read once for each group of
// rows; the columns of a group are written from left to right.
template <class T, class Finish, class Writer>
MERCER_INLINE void for_each_dense_chunk(Rows<const T> X, Rows<const T> weights, T* scratch, const Finish& finish,
                                        const Writer& writer) {
    const DenseScratch<T> part(weights);
    T* rows = scratch + part.rows;
    pack_panels(weights, scratch);
    for (ptrdiff_t row = 0; row < X.rows; row += grouped_rows) {
        const ptrdiff_t row_count = smaller(grouped_rows, X.rows - row);
        const T* panel = scratch;
        for (ptrdiff_t column = 0; column < weights.columns; column += written_columns) {
            for (ptrdiff_t offset = 0; offset < written_columns; offset += panel_columns<T>) {
                for (ptrdiff_t i = 0; i < row_count; i += dense_rows)
                    multiply_panel<T>(X.data + (row + i) * X.stride, X.stride, row_count - i, panel, weights.rows,
                                      rows + i * written_columns + offset, [&](Pack<T> values, ptrdiff_t pack) {
                                          return finish(values, column + offset + pack);
                                      });
                panel += panel_columns<T> * weights.rows;
            }
            writer.write(row, row_count, column, rows);
        }
    }
}

template <class T>
struct Unchanged {
    MERCER_INLINE Pack<T> operator()(Pack<T> values, ptrdiff_t) const { return values; }
};

template <class T>
void dense(Rows<const T> X, Rows<const T> weights, Result<T> result, T* scratch) {
    for_each_dense_chunk(X, weights, scratch, Unchanged<T>(), ResultWriter<T>(result));
}

template <class T>
void dense_pairs(Rows<const T> X, Rows<const T> weights, T scale, Rows<T> out, T* scratch) {
    for_each_dense_chunk(X, weights, scratch, Unchanged<T>(), PairWriter<T>{weights.columns, scale, out});
}

template <class T>
void dense_cosines(Rows<const T> X, Rows<const T> weights, const T* phases, T scale, Rows<T> out, T* scratch) {
    const DenseScratch<T> part(weights);
    T* padded = scratch + part.phases;
    for (ptrdiff_t j = 0; j < part.columns; ++j) padded[j] = j < weights.columns ? phases[j] : T(0);
    const auto finish = [=](Pack<T> values, ptrdiff_t column) { return values + load(padded + column); };
    for_each_dense_chunk(X, weights, scratch, finish, CosineWriter<T>{scale, out});
}

template <class T>
constexpr Kernels<T> kernels() {
    return {
        sincos_pairs<T>,      cosines<T>,   hadamard_scratch<T>, sign_hadamard<T>, sign_hadamard_pairs<T>,
        butterfly_scratch<T>, butterfly<T>, butterfly_pairs<T>,  dense_scratch<T>, dense<T>,
        dense_pairs<T>,       dense_cosines<T>, sparse_product<T>,
        system_scratch<T>,    solve_local<T, T>, solve_local<T, float>, solve_given<T>,
        gradient_scratch<T>,  metric_gradient<T>,
        pack_rows<T>,         nearest_scratch<T>, nearest_rows<T>,
    };
}

}  // namespace

extern const KernelSet MERCER_KERNEL_SET = {kernels<float>(), kernels<double>()};

}  // namespace mercer
