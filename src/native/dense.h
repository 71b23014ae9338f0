// Products of rows with a dense matrix, a few rows and packs of columns at a time.
//
// Each result is one chain of multiply-adds over the columns of the row, in order, so that its rounding
// depends only on the row and the column of the matrix.
#pragma once

#include "hadamard.h"
#include "kernels.h"

namespace mercer {
namespace {

// Rows and packs that a product holds in registers; with their operands they fill nearly all registers.
constexpr int dense_rows = 6;
#if defined(MERCER_AVX512) || defined(__aarch64__)
constexpr int dense_packs = 4;
#else
constexpr int dense_packs = 2;
#endif

template <class T>
constexpr int panel_columns = dense_packs * lanes<T>;

// Rows for which the packed matrix is read once, and whose results stay in the first-level cache.
constexpr std::ptrdiff_t grouped_rows = 4 * dense_rows;

MERCER_INLINE std::ptrdiff_t padded_columns(std::ptrdiff_t columns) {
    return (columns + written_columns - 1) / written_columns * written_columns;
}

// The matrix in panels of `panel_columns` columns, row by row, padded with zeros.
template <class T>
void pack_panels(Rows<const T> weights, T* packed) {
    for (std::ptrdiff_t first = 0; first < padded_columns(weights.columns); first += panel_columns<T>) {
        for (std::ptrdiff_t k = 0; k < weights.rows; ++k) {
            const T* from = weights.data + k * weights.stride;
            for (std::ptrdiff_t j = first; j < first + panel_columns<T>; ++j)
                *packed++ = j < weights.columns ? from[j] : T(0);
        }
    }
}

// Multiplies `count` rows, at most `dense_rows`, by one panel and applies `finish(values, pack)`. Copies
// of the first row take the place of missing rows.
template <class T, class Finish>
MERCER_INLINE void multiply_panel(const T* X, std::ptrdiff_t stride, std::ptrdiff_t count, const T* panel,
                                  std::ptrdiff_t depth, T* out, const Finish& finish) {
    const T* row[dense_rows];
    MERCER_UNROLL
    for (int i = 0; i < dense_rows; ++i) row[i] = X + (i < count ? i : 0) * stride;
    Pack<T> sum[dense_rows][dense_packs];
    MERCER_UNROLL
    for (int i = 0; i < dense_rows; ++i) {
        MERCER_UNROLL
        for (int j = 0; j < dense_packs; ++j) sum[i][j] = Pack<T>{};
    }
    for (std::ptrdiff_t k = 0; k < depth; ++k) {
        Pack<T> column[dense_packs];
        MERCER_UNROLL
        for (int j = 0; j < dense_packs; ++j) column[j] = load(panel + (k * dense_packs + j) * lanes<T>);
        MERCER_UNROLL
        for (int i = 0; i < dense_rows; ++i) {
            const Pack<T> x = broadcast(row[i][k]);
            MERCER_UNROLL
            for (int j = 0; j < dense_packs; ++j) sum[i][j] = multiply_add<T>(x, column[j], sum[i][j]);
        }
    }
    MERCER_UNROLL
    for (int i = 0; i < dense_rows; ++i) {
        MERCER_UNROLL
        for (int j = 0; j < dense_packs; ++j)
            store(out + i * written_columns + j * lanes<T>, finish(sum[i][j], j * lanes<T>));
    }
}

}  // namespace
}  // namespace mercer
