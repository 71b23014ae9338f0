// Products of rows of a sparse matrix with a dense matrix, a few columns at a time, with sums in registers.
#pragma once

#include "kernels.h"
#include "lanes.h"

namespace mercer {
namespace {

// Packs of neighboring columns that are summed together, and the columns in them.
constexpr int summed_packs = 4;
template <class T>
constexpr std::ptrdiff_t summed_columns = summed_packs * lanes<T>;
// Number of rows of the dense matrix to prefetch; they are scattered in memory.
constexpr std::ptrdiff_t rows_ahead = 4;

MERCER_INLINE void ask_for(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

// Sums of some columns for one row of A. `row_of(k)` points to these columns in the row of entry k.
template <class T, class RowOf>
MERCER_INLINE void sum_columns(const SparseRows<T>& A, std::ptrdiff_t row, const RowOf& row_of, T* out) {
    Pack<T> sum[summed_packs];
    MERCER_UNROLL
    for (int p = 0; p < summed_packs; ++p) sum[p] = broadcast(T(0));
    for (std::ptrdiff_t k = A.starts[row]; k < A.starts[row + 1]; ++k) {
        const T* columns = row_of(k);
        const Pack<T> value = broadcast(A.values[k]);
        MERCER_UNROLL
        for (int p = 0; p < summed_packs; ++p) sum[p] = multiply_add<T>(load(columns + p * lanes<T>), value, sum[p]);
    }
    MERCER_UNROLL
    for (int p = 0; p < summed_packs; ++p) store(out + p * lanes<T>, sum[p]);
}

template <class T>
void sparse_product(SparseRows<T> A, Rows<const T> X, Rows<T> out) {
    constexpr std::ptrdiff_t width = summed_columns<T>, line = 64 / std::ptrdiff_t(sizeof(T));
    const std::ptrdiff_t last = A.starts[out.rows];
    for (std::ptrdiff_t i = 0; i < out.rows; ++i) {
        T* to = out.data + i * out.stride;
        std::ptrdiff_t column = 0;
        for (; column + width <= X.columns; column += width) {
            sum_columns(A, i, [&](std::ptrdiff_t k) {
                if (k + rows_ahead < last) {
                    const T* later = X.data + std::ptrdiff_t(A.indices[k + rows_ahead]) * X.stride + column;
                    for (std::ptrdiff_t j = 0; j < width; j += line) ask_for(later + j);
                }
                return X.data + std::ptrdiff_t(A.indices[k]) * X.stride + column;
            }, to + column);
        }
        const std::ptrdiff_t rest = X.columns - column;
        if (rest == 0) continue;
        // Pads the last columns with zeros; the results of the padding are not written.
        T padded[width] = {}, sums[width];
        sum_columns(A, i, [&](std::ptrdiff_t k) {
            std::memcpy(padded, X.data + std::ptrdiff_t(A.indices[k]) * X.stride + column, size_t(rest) * sizeof(T));
            return static_cast<const T*>(padded);
        }, sums);
        std::memcpy(to + column, sums, size_t(rest) * sizeof(T));
    }
}

}  // namespace
}  // namespace mercer
