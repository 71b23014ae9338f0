// Kernel systems of the neighbors of each query: distances, kernel values, Cholesky factors, solutions, gradients.
//
// All matrices of a query are stored by columns, `stride` elements apart. Tiles of `group` columns and one or
// two packs of rows are computed in registers. The query and the right-hand sides are further rows below the matrix of
// the neighbors: the factorization turns them into solutions of the triangular system. The number of neighbors is
// padded to complete tiles by rows of the identity matrix.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "functions.h"
#include "sparse.h"

namespace mercer {
namespace {

// Columns of a tile; two packs of rows by four columns hide the latency of a multiply-add.
constexpr int group = 4;
// Features of the rows that are transposed at once: with 128 rows they fit into the second-level cache, with 64 rows in
// single precision into the first.
constexpr std::ptrdiff_t slab = 64;
// Times that a system is factorized, each time with ten times the jitter, before its solution is NaN.
constexpr int attempts = 20;

MERCER_INLINE std::ptrdiff_t round_up(std::ptrdiff_t n, std::ptrdiff_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

// Not std::sqrt, which is an inline function of external linkage: the linker could choose the copy of any kernel set.
MERCER_INLINE float square_root(float x) {
#if defined(__GNUC__)
    return __builtin_sqrtf(x);
#else
    return std::sqrt(x);
#endif
}

MERCER_INLINE double square_root(double x) {
#if defined(__GNUC__)
    return __builtin_sqrt(x);
#else
    return std::sqrt(x);
#endif
}

template <class T>
MERCER_INLINE Pack<T> square_roots(Pack<T> x) {
#if defined(MERCER_AVX512)
    if constexpr (sizeof(T) == 4) return Pack<T>(_mm512_sqrt_ps(__m512(x)));
    else return Pack<T>(_mm512_sqrt_pd(__m512d(x)));
#elif defined(MERCER_AVX2)
    if constexpr (sizeof(T) == 4) return Pack<T>(_mm256_sqrt_ps(__m256(x)));
    else return Pack<T>(_mm256_sqrt_pd(__m256d(x)));
#else
    T lane[lanes<T>];
    store(lane, x);
    for (int i = 0; i < lanes<T>; ++i) lane[i] = square_root(lane[i]);
    return load(lane);
#endif
}

template <class T>
MERCER_INLINE Pack<T> quotient(Pack<T> a, Pack<T> b) {
#ifdef MERCER_VECTOR_TYPES
    return a / b;
#else
    for (int i = 0; i < lanes<T>; ++i) a.lane[i] /= b.lane[i];
    return a;
#endif
}

// The kernel at a squared distance, or with `slope` minus its derivative over the distance, which is zero where it
// would be infinite.
template <class T, Profile profile, bool slope>
MERCER_INLINE Pack<T> kernel_value(Pack<T> square) {
    const Pack<T> one = broadcast(T(1)), zero = broadcast(T(0));
    if constexpr (profile == Profile::gaussian) {
        return exponential<T>(square * broadcast(T(-0.5)));
    } else if constexpr (profile == Profile::matern12) {
        const Pack<T> r = square_roots<T>(square);
        const Pack<T> value = exponential<T>(zero - r);
        if constexpr (!slope) return value;
        else return select_negative<T>(zero - r, quotient<T>(value, r), zero);
    } else if constexpr (profile == Profile::matern32) {
        const Pack<T> r = square_roots<T>(square) * broadcast(T(1.73205080756887729353));
        const Pack<T> decay = exponential<T>(zero - r);
        if constexpr (slope) return decay * broadcast(T(3));
        else return multiply_add<T>(r, decay, decay);
    } else {
        const Pack<T> r = square_roots<T>(square) * broadcast(T(2.23606797749978969641));
        const Pack<T> decay = exponential<T>(zero - r);
        if constexpr (slope) return (r + one) * decay * broadcast(T(5.0 / 3.0));
        else return multiply_add<T>(multiply_add<T>(r, broadcast(T(1.0 / 3.0)), one), r, one) * decay;
    }
}

// ---- tiles -----------------------------------------------------------------------------------------------------------

template <class T, int packs>
struct Tile {
    Pack<T> at[packs][group];

    MERCER_INLINE void clear() {
        MERCER_UNROLL
        for (int p = 0; p < packs; ++p) {
            MERCER_UNROLL
            for (int c = 0; c < group; ++c) at[p][c] = broadcast(T(0));
        }
    }

    MERCER_INLINE void read(const T* from, std::ptrdiff_t stride) {
        MERCER_UNROLL
        for (int p = 0; p < packs; ++p) {
            MERCER_UNROLL
            for (int c = 0; c < group; ++c) at[p][c] = load(from + c * stride + p * lanes<T>);
        }
    }

    MERCER_INLINE void write(T* to, std::ptrdiff_t stride) const {
        MERCER_UNROLL
        for (int p = 0; p < packs; ++p) {
            MERCER_UNROLL
            for (int c = 0; c < group; ++c) store(to + c * stride + p * lanes<T>, at[p][c]);
        }
    }

    // Replaces each sum by `term(x, y, sum)`, for s = 0, 1, ... in turn, where x are the packs of rows at
    // `a + s * a_step`, and y the numbers of the columns at `b + s * b_step + c * b_column`.
    template <class Term>
    MERCER_INLINE void accumulate(const T* a, std::ptrdiff_t a_step, const T* b, std::ptrdiff_t b_step,
                                  std::ptrdiff_t b_column, std::ptrdiff_t depth, const Term& term) {
        for (std::ptrdiff_t s = 0; s < depth; ++s) {
            Pack<T> x[packs];
            MERCER_UNROLL
            for (int p = 0; p < packs; ++p) x[p] = load(a + s * a_step + p * lanes<T>);
            MERCER_UNROLL
            for (int c = 0; c < group; ++c) {
                const T y = b[s * b_step + c * b_column];
                MERCER_UNROLL
                for (int p = 0; p < packs; ++p) at[p][c] = term(x[p], y, at[p][c]);
            }
        }
    }
};

template <class T>
struct AddProduct {
    MERCER_INLINE Pack<T> operator()(Pack<T> x, T y, Pack<T> sum) const {
        return multiply_add<T>(x, broadcast(y), sum);
    }
};

template <class T>
struct SubtractProduct {
    MERCER_INLINE Pack<T> operator()(Pack<T> x, T y, Pack<T> sum) const {
        return multiply_add<T>(x, broadcast(-y), sum);
    }
};

template <class T>
struct AddSquaredDifference {
    MERCER_INLINE Pack<T> operator()(Pack<T> x, T y, Pack<T> sum) const {
        const Pack<T> difference = x - broadcast(y);
        return multiply_add<T>(difference, difference, sum);
    }
};

// Calls `visit(packs, row)`, `packs` a constant, for tiles that cover the rows `first` to `last`. `first` must be a
// multiple of a pack.
template <class T, class Visit>
MERCER_INLINE void for_each_tile(std::ptrdiff_t first, std::ptrdiff_t last, const Visit& visit) {
    std::ptrdiff_t row = first;
    for (; row + lanes<T> < last; row += 2 * lanes<T>) visit(std::integral_constant<int, 2>(), row);
    if (row < last) visit(std::integral_constant<int, 1>(), row);
}

// The same with up to four packs, which hide the latency of a multiply-add where there is one column.
template <class T, class Visit>
MERCER_INLINE void for_each_long_tile(std::ptrdiff_t last, const Visit& visit) {
    std::ptrdiff_t row = 0;
    for (; row + 3 * lanes<T> < last; row += 4 * lanes<T>) visit(std::integral_constant<int, 4>(), row);
    for (; row < last; row += lanes<T>) visit(std::integral_constant<int, 1>(), row);
}

template <class T>
MERCER_INLINE std::ptrdiff_t pack_start(std::ptrdiff_t row) {
    return row / lanes<T> * lanes<T>;
}

// Applies `kernel_value` to the lower triangle, and to the rest of each tile.
template <class T, Profile profile, bool slope>
MERCER_NOINLINE void apply_profile(T* A, std::ptrdiff_t stride, std::ptrdiff_t columns, std::ptrdiff_t rows) {
    for (std::ptrdiff_t j = 0; j < columns; ++j)
        for (std::ptrdiff_t i = pack_start<T>(j / group * group); i < rows; i += lanes<T>)
            store(A + j * stride + i, kernel_value<T, profile, slope>(load(A + j * stride + i)));
}

template <class T, bool slope>
void apply_profile(Profile profile, T* A, std::ptrdiff_t stride, std::ptrdiff_t columns, std::ptrdiff_t rows) {
    switch (profile) {
        case Profile::gaussian: return apply_profile<T, Profile::gaussian, slope>(A, stride, columns, rows);
        case Profile::matern12: return apply_profile<T, Profile::matern12, slope>(A, stride, columns, rows);
        case Profile::matern32: return apply_profile<T, Profile::matern32, slope>(A, stride, columns, rows);
        case Profile::matern52: return apply_profile<T, Profile::matern52, slope>(A, stride, columns, rows);
    }
}

// Calls `use(first, width)` after the features `first` to `first + width` of all rows have been transposed to `to`, for
// all features in turn, at most `depth` of them at once. `count` is a multiple of a pack.
template <class T, class Use>
MERCER_INLINE void for_each_slab(const T* const* row, std::ptrdiff_t count, std::ptrdiff_t features, T* to,
                                 std::ptrdiff_t stride, const Use& use, std::ptrdiff_t depth = slab) {
    for (std::ptrdiff_t first = 0; first < features; first += depth) {
        const std::ptrdiff_t width = smaller(depth, features - first);
        for (std::ptrdiff_t i = 0; i < count; i += lanes<T>) {
            std::ptrdiff_t j = 0;
            for (; j + lanes<T> <= width; j += lanes<T>) {
                Pack<T> square[lanes<T>];
                MERCER_UNROLL
                for (int r = 0; r < lanes<T>; ++r) square[r] = load(row[i + r] + first + j);
                transpose<T>(square);
                MERCER_UNROLL
                for (int c = 0; c < lanes<T>; ++c) store(to + (j + c) * stride + i, square[c]);
            }
            if (j < width) {
                Pack<T> square[lanes<T>] = {};
                for (int r = 0; r < lanes<T>; ++r)
                    std::memcpy(&square[r], row[i + r] + first + j, size_t(width - j) * sizeof(T));
                transpose<T>(square);
                for (int c = 0; c < width - j; ++c) store(to + (j + c) * stride + i, square[c]);
            }
            // The next features of the same rows, which the processor does not foresee.
            if (first + depth < features)
                for (int r = 0; r < lanes<T>; ++r)
                    for (std::ptrdiff_t ahead = 0; ahead < smaller(depth, features - first - depth);
                         ahead += 64 / std::ptrdiff_t(sizeof(T)))
                        ask_for(row[i + r] + first + depth + ahead);
        }
        use(first, width);
    }
}

// ---- one system ------------------------------------------------------------------------------------------------------

// Matrices of one query in scratch memory, for at most `k` neighbors and `t` right-hand sides beside the query.
template <class T>
struct System {
    static constexpr std::ptrdiff_t line = 64 / std::ptrdiff_t(sizeof(T));
    static constexpr std::ptrdiff_t words = 8 / std::ptrdiff_t(sizeof(T));  // elements of a pointer

    // An odd number of cache lines, so that neighboring columns are in different sets of the cache.
    static std::ptrdiff_t stride_for(std::ptrdiff_t k, std::ptrdiff_t t) {
        const std::ptrdiff_t lines = round_up(round_up(k, group) + round_up(1 + t, lanes<T>) + lanes<T>, line) / line;
        return (lines | 1) * line;
    }

    static std::ptrdiff_t size(std::ptrdiff_t k, std::ptrdiff_t t) {
        const std::ptrdiff_t stride = stride_for(k, t);
        return (2 * round_up(k, group) + slab + 4 + 2 * words) * stride;
    }

    System(std::ptrdiff_t k, std::ptrdiff_t t, T* scratch)
        : stride(stride_for(k, t)),
          right(t),
          A(scratch),
          L(A + round_up(k, group) * stride),
          X(L + round_up(k, group) * stride),
          inverse(X + slab * stride),
          least(inverse + stride),
          noise(least + stride),
          cross(noise + stride),
          row(reinterpret_cast<const T**>(cross + stride)),
          position(reinterpret_cast<std::int64_t*>(cross + (1 + words) * stride)) {}

    // Finds the neighbors of a query that exist: their positions among its indices, rows and noise.
    void select(const Neighbors<T>& neighbors, std::ptrdiff_t query, const T* all_noise, std::ptrdiff_t noise_step) {
        const std::int64_t* index = neighbors.indices + query * neighbors.count;
        count = 0;
        for (std::ptrdiff_t j = 0; j < neighbors.count; ++j) {
            if (index[j] < 0) continue;
            const T value = all_noise ? all_noise[index[j] * noise_step] : T(0);
            if (value == std::numeric_limits<T>::infinity()) continue;
            row[count] = neighbors.rows.data + index[j] * neighbors.rows.stride;
            noise[count] = value;
            position[count++] = j;
        }
        columns = round_up(count, group);
    }

    // Repeats the row of the query after those of the neighbors, so that tiles have no missing rows.
    void pad_rows(const T* query) {
        for (std::ptrdiff_t i = count; i < round_up(columns + 1, lanes<T>); ++i) row[i] = query;
    }

    std::ptrdiff_t rows() const { return columns + 1; }
    std::ptrdiff_t padded_rows() const { return round_up(rows(), lanes<T>); }

    template <class Term>
    MERCER_INLINE void update(std::ptrdiff_t depth, bool fresh, const Term& term) {
        for (std::ptrdiff_t j = 0; j < columns; j += group) {
            for_each_tile<T>(pack_start<T>(j), rows(), [&](auto packs, std::ptrdiff_t i) {
                Tile<T, packs()> tile;
                T* to = A + j * stride + i;
                if (fresh) tile.clear();
                else tile.read(to, stride);
                tile.accumulate(X + i, stride, X + j, stride, 1, depth, term);
                tile.write(to, stride);
            });
        }
    }

    MERCER_NOINLINE void squared_distances(std::ptrdiff_t features) {
        if (features == 0) update(0, true, AddSquaredDifference<T>());
        for_each_slab<T>(row, padded_rows(), features, X, stride, [&](std::ptrdiff_t first, std::ptrdiff_t width) {
            update(width, first == 0, AddSquaredDifference<T>());
        });
    }

    // As `update`, with the query, of which `depth` features are given, apart from the neighbors: its values are in
    // `cross`. As a further row it would need a pack of its own in every tile.
    template <class Term>
    MERCER_INLINE void update_apart(const T* query, std::ptrdiff_t depth, bool fresh, const Term& term) {
        for (std::ptrdiff_t j = 0; j < columns; j += group) {
            for_each_tile<T>(pack_start<T>(j), columns, [&](auto packs, std::ptrdiff_t i) {
                Tile<T, packs()> tile;
                T* to = A + j * stride + i;
                if (fresh) tile.clear();
                else tile.read(to, stride);
                tile.accumulate(X + i, stride, X + j, stride, 1, depth, term);
                tile.write(to, stride);
            });
        }
        for_each_long_tile<T>(columns, [&](auto packs, std::ptrdiff_t i) {
            Pack<T> sum[packs()];
            MERCER_UNROLL
            for (int p = 0; p < packs(); ++p) sum[p] = fresh ? broadcast(T(0)) : load(cross + i + p * lanes<T>);
            for (std::ptrdiff_t s = 0; s < depth; ++s) {
                MERCER_UNROLL
                for (int p = 0; p < packs(); ++p) sum[p] = term(load(X + s * stride + i + p * lanes<T>), query[s], sum[p]);
            }
            MERCER_UNROLL
            for (int p = 0; p < packs(); ++p) store(cross + i + p * lanes<T>, sum[p]);
        });
    }

    MERCER_NOINLINE void distances_apart(const T* query, std::ptrdiff_t features) {
        if (features == 0) update_apart(query, 0, true, AddSquaredDifference<T>());
        for_each_slab<T>(row, round_up(columns, lanes<T>), features, X, stride,
                         [&](std::ptrdiff_t first, std::ptrdiff_t width) {
                             update_apart(query + first, width, first == 0, AddSquaredDifference<T>());
                         });
    }

    template <Profile profile>
    MERCER_INLINE void profile_apart() {
        mercer::apply_profile<T, profile, false>(A, stride, columns, columns);
        mercer::apply_profile<T, profile, false>(cross, stride, columns > 0, columns);
    }

    void profile_apart(Profile profile) {
        switch (profile) {
            case Profile::gaussian: return profile_apart<Profile::gaussian>();
            case Profile::matern12: return profile_apart<Profile::matern12>();
            case Profile::matern32: return profile_apart<Profile::matern32>();
            case Profile::matern52: return profile_apart<Profile::matern52>();
        }
    }

    MERCER_NOINLINE void subtract_features(const T* const* from, const T* query, std::ptrdiff_t features) {
        for_each_slab<T>(from, round_up(columns, lanes<T>), features, X, stride,
                         [&](std::ptrdiff_t first, std::ptrdiff_t width) {
                             update_apart(query + first, width, false, SubtractProduct<T>());
                         });
    }

    // Subtracts products of features in single precision from a matrix in double precision. Sums of the products of a
    // slab are in single precision.
    template <class F, std::enable_if_t<(sizeof(F) < sizeof(T)), int> = 0>
    MERCER_NOINLINE void subtract_features(const F* const* from, const F* query, std::ptrdiff_t features) {
        constexpr std::ptrdiff_t in_line = 64 / std::ptrdiff_t(sizeof(F)), ratio = sizeof(T) / sizeof(F);
        const std::ptrdiff_t padded = round_up(columns, lanes<F>);
        const std::ptrdiff_t step = ((round_up(padded, in_line) / in_line) | 1) * in_line;
        const std::ptrdiff_t most = slab * stride * ratio / step / in_line * in_line;
        F* slabs = reinterpret_cast<F*>(X);
        for_each_slab<F>(from, padded, features, slabs, step, [&](std::ptrdiff_t first, std::ptrdiff_t width) {
            for (std::ptrdiff_t j = 0; j < columns; j += group) {
                for_each_tile<F>(pack_start<F>(j), columns, [&](auto packs, std::ptrdiff_t i) {
                    constexpr std::ptrdiff_t rows = packs() * lanes<F>;
                    Tile<F, packs()> tile;
                    tile.clear();
                    tile.accumulate(slabs + i, step, slabs + j, step, 1, width, AddProduct<F>());
                    F sums[group * rows];
                    tile.write(sums, rows);
                    for (int c = 0; c < group; ++c) {
                        T* to = A + (j + c) * stride + i;
                        for (std::ptrdiff_t r = larger(0, pack_start<T>(j) - i); r < rows; ++r)
                            to[r] -= T(sums[c * rows + r]);
                    }
                });
            }
            for_each_long_tile<F>(columns, [&](auto packs, std::ptrdiff_t i) {
                constexpr std::ptrdiff_t rows = packs() * lanes<F>;
                Pack<F> sum[packs()];
                MERCER_UNROLL
                for (int p = 0; p < packs(); ++p) sum[p] = broadcast(F(0));
                for (std::ptrdiff_t s = 0; s < width; ++s) {
                    const Pack<F> y = broadcast(query[first + s]);
                    MERCER_UNROLL
                    for (int p = 0; p < packs(); ++p)
                        sum[p] = multiply_add<F>(load(slabs + s * step + i + p * lanes<F>), y, sum[p]);
                }
                F sums[rows];
                MERCER_UNROLL
                for (int p = 0; p < packs(); ++p) store(sums + p * lanes<F>, sum[p]);
                for (std::ptrdiff_t r = 0; r < rows; ++r) cross[i + r] -= T(sums[r]);
            });
        }, smaller(most, slab * ratio));
    }

    // Replaces the padding by the identity matrix, clears the right-hand sides, and adds the noise to the diagonal.
    // `scale(j)` is the size of the numbers of which diagonal entry j is a sum or difference.
    template <class Scale>
    void finish_matrix(const Scale& scale) {
        const T eps = std::numeric_limits<T>::epsilon(), tolerance = eps * (T(4) + square_root(T(count)));
        trace = 0;
        for (std::ptrdiff_t j = 0; j < columns; ++j) {
            T* column = A + j * stride;
            if (j >= count) for (std::ptrdiff_t i = 0; i < rows(); ++i) column[i] = T(0);
            for (std::ptrdiff_t i = count; i < columns; ++i) column[i] = T(0);
            for (std::ptrdiff_t i = columns + 1; i < stride; ++i) column[i] = T(0);
            if (j < count) {
                const T size = scale(j);
                trace += double(size);
                least[j] = tolerance * (size + noise[j]);
                column[j] += noise[j];
            } else {
                least[j] = T(0);
                column[j] = T(1);
            }
        }
    }

    // Factorizes the first `group` columns of a block and scales by the inverse roots of the pivots; false if a pivot
    // is not above rounding errors.
    MERCER_INLINE bool factorize_corner(std::ptrdiff_t j, T (&l)[group][group]) {
        for (int c = 0; c < group; ++c) {
            for (int r = c; r < group; ++r) {
                T value = L[(j + c) * stride + j + r];
                for (int b = 0; b < c; ++b) value -= l[r][b] * l[c][b];
                if (r == c) {
                    if (!(value > least[j + c])) return false;
                    inverse[j + c] = T(1) / square_root(value);
                }
                l[r][c] = value * inverse[j + c];
            }
        }
        return true;
    }

    // Writes the Cholesky factor of A plus `jitter` to L, below it the right-hand sides times the inverse of its
    // transpose.
    MERCER_NOINLINE bool factorize(T jitter) {
        const std::ptrdiff_t end = rows() + right;
        for (std::ptrdiff_t j = 0; j < columns; j += group) {
            T l[group][group];
            bool good = true, first = true;
            for_each_tile<T>(pack_start<T>(j), end, [&](auto packs, std::ptrdiff_t i) {
                if (!good) return;
                Tile<T, packs()> tile;
                T* to = L + j * stride + i;
                tile.read(A + j * stride + i, stride);
                tile.accumulate(L + i, stride, L + j, stride, 1, j, SubtractProduct<T>());
                if (first) {  // this tile has the diagonal: `group` divides a pack, or a pack divides it
                    tile.write(to, stride);
                    for (int c = 0; c < group; ++c) L[(j + c) * (stride + 1)] += jitter;
                    good = factorize_corner(j, l);
                    first = false;
                    tile.read(to, stride);
                }
                MERCER_UNROLL
                for (int p = 0; p < packs(); ++p) {
                    MERCER_UNROLL
                    for (int c = 0; c < group; ++c) {
                        Pack<T> value = tile.at[p][c];
                        MERCER_UNROLL
                        for (int b = 0; b < c; ++b) value = multiply_add<T>(tile.at[p][b], broadcast(-l[c][b]), value);
                        tile.at[p][c] = value * broadcast(inverse[j + c]);
                    }
                }
                tile.write(to, stride);
            });
            if (!good) return false;
        }
        return true;
    }

    // Replaces the rows below the factor by solutions of the system, packs of right-hand sides at a time.
    MERCER_NOINLINE void substitute() {
        for (std::ptrdiff_t first = columns; first < rows() + right; first += lanes<T>) {
            for (std::ptrdiff_t j = columns - group; j >= 0; j -= group) {
                Pack<T> sum[group], odd[group];
                MERCER_UNROLL
                for (int c = 0; c < group; ++c) {
                    sum[c] = load(L + (j + c) * stride + first);
                    odd[c] = broadcast(T(0));
                }
                for (std::ptrdiff_t i = j + group; i < columns; i += 2) {
                    const Pack<T> x = load(L + i * stride + first), y = load(L + (i + 1) * stride + first);
                    MERCER_UNROLL
                    for (int c = 0; c < group; ++c) {
                        const T* l = L + (j + c) * stride + i;
                        sum[c] = multiply_add<T>(x, broadcast(-l[0]), sum[c]);
                        odd[c] = multiply_add<T>(y, broadcast(-l[1]), odd[c]);
                    }
                }
                MERCER_UNROLL
                for (int c = group - 1; c >= 0; --c) {
                    Pack<T> value = sum[c] + odd[c];
                    MERCER_UNROLL
                    for (int b = group - 1; b > c; --b)
                        value = multiply_add<T>(sum[b], broadcast(-L[(j + c) * stride + j + b]), value);
                    sum[c] = value * broadcast(inverse[j + c]);
                    store(L + (j + c) * stride + first, sum[c]);
                }
            }
        }
    }

    // Solves the system and writes the results of a query with `k` neighbors, present or not. `target(j)` are the
    // targets of neighbor j.
    template <class Target>
    void solve(std::ptrdiff_t query, std::ptrdiff_t k, double prior, const Target& target,
               const Solutions<T>& out) {
        T* weights = out.weights + query * k;
        T* solved = out.solved ? out.solved + query * k * right : nullptr;
        for (std::ptrdiff_t j = 0; j < k; ++j) weights[j] = T(0);
        if (solved) for (std::ptrdiff_t j = 0; j < k * right; ++j) solved[j] = T(0);
        for (std::ptrdiff_t j = 0; right > 0 && j < count; ++j)
            std::memcpy(A + j * stride + columns + 1, target(j), size_t(right) * sizeof(T));

        double jitter = 0;
        bool good = false;
        for (int attempt = 0; attempt < attempts && !good; ++attempt) {
            if (attempt == 1) jitter = double(std::numeric_limits<T>::epsilon()) * trace;
            if (attempt > 1) jitter *= 10;
            good = factorize(T(jitter));
        }
        const T nan = std::numeric_limits<T>::quiet_NaN();
        double variance = prior;
        for (std::ptrdiff_t j = 0; j < count; ++j) {
            const double y = good ? double(L[j * stride + columns]) : double(nan);
            variance -= y * y;
        }
        if (good) substitute();
        out.variance[query] = variance < 0 ? 0 : variance;
        out.jitter[query] = good ? jitter : double(nan);
        for (std::ptrdiff_t j = 0; j < count; ++j) {
            const T* solution = L + j * stride + columns;
            weights[position[j]] = good ? solution[0] : nan;
            for (std::ptrdiff_t c = 0; c < right; ++c)
                solved[position[j] * right + c] = good ? solution[1 + c] : nan;
        }
    }

    std::ptrdiff_t stride;
    std::ptrdiff_t right;    // right-hand sides beside the query
    std::ptrdiff_t count;    // neighbors that exist
    std::ptrdiff_t columns;  // the same, padded to complete tiles
    double trace;
    T* A;
    T* L;
    T* X;        // transposed features, `slab` at a time
    T* inverse;  // one over the diagonal of L
    T* least;    // that a pivot must exceed
    T* noise;
    T* cross;  // of the neighbors and the query
    const T** row;
    std::int64_t* position;
};

template <class T>
std::ptrdiff_t system_scratch(std::ptrdiff_t k, std::ptrdiff_t t) {
    return System<T>::size(k, t);
}

// The rows of the next query, while those of this one are used.
template <class T>
MERCER_INLINE void ask_for_next(const Neighbors<T>& neighbors, std::ptrdiff_t query) {
    if (query + 1 >= neighbors.queries.rows) return;
    const std::int64_t* index = neighbors.indices + (query + 1) * neighbors.count;
    const std::ptrdiff_t columns = smaller(neighbors.rows.columns, slab);
    for (std::ptrdiff_t j = 0; j < neighbors.count; ++j) {
        if (index[j] < 0) continue;
        const T* row = neighbors.rows.data + index[j] * neighbors.rows.stride;
        for (std::ptrdiff_t p = 0; p < columns; p += 64 / std::ptrdiff_t(sizeof(T))) ask_for(row + p);
    }
}

template <class T, class F>
void solve_local(Neighbors<T> neighbors, const T* noise, std::ptrdiff_t noise_step, Rows<const T> targets,
                 Rows<const F> features, Rows<const F> query_features, Solutions<T> out, T* scratch) {
    System<T> system(neighbors.count, targets.columns, scratch);
    for (std::ptrdiff_t query = 0; query < neighbors.queries.rows; ++query) {
        double prior = 1;
        const F* feature = features.data ? query_features.data + query * query_features.stride : nullptr;
        if (feature) {
            for (std::ptrdiff_t p = 0; p < features.columns; ++p) prior -= double(feature[p]) * double(feature[p]);
            prior = prior < 0 ? 0 : prior;
        }
        system.select(neighbors, query, noise, noise_step);
        const std::int64_t* index = neighbors.indices + query * neighbors.count;
        ask_for_next(neighbors, query);
        const T* point = neighbors.queries.data + query * neighbors.queries.stride;
        system.pad_rows(point);
        system.distances_apart(point, neighbors.rows.columns);
        system.profile_apart(neighbors.profile);
        if (feature) {
            const F** row = reinterpret_cast<const F**>(system.row);
            for (std::ptrdiff_t j = 0; j < system.count; ++j)
                row[j] = features.data + index[system.position[j]] * features.stride;
            for (std::ptrdiff_t j = system.count; j < round_up(system.columns, lanes<F>); ++j) row[j] = feature;
            system.subtract_features(row, feature, features.columns);
        }
        for (std::ptrdiff_t j = 0; j < system.count; ++j) system.A[j * system.stride + system.columns] = system.cross[j];
        system.finish_matrix([](std::ptrdiff_t) { return T(1); });
        system.solve(query, neighbors.count, prior, [&](std::ptrdiff_t j) {
            return targets.data + index[system.position[j]] * targets.stride;
        }, out);
    }
}

template <class T>
void solve_given(GivenSystems<T> given, Solutions<T> out, T* scratch) {
    const std::ptrdiff_t k = given.size;
    System<T> system(k, given.right, scratch);
    for (std::ptrdiff_t query = 0; query < given.count; ++query) {
        const T* matrix = given.K + query * k * k;
        system.count = 0;
        for (std::ptrdiff_t j = 0; j < k; ++j) {
            const T noise = given.noise[query * k + j];
            if (noise == std::numeric_limits<T>::infinity()) continue;
            system.noise[system.count] = noise;
            system.position[system.count++] = j;
        }
        system.columns = round_up(system.count, group);
        for (std::ptrdiff_t j = 0; j < system.count; ++j) {
            const T* from = matrix + system.position[j] * k;
            T* to = system.A + j * system.stride;
            for (std::ptrdiff_t i = 0; i < system.count; ++i) to[i] = from[system.position[i]];
            to[system.columns] = given.cross[query * k + system.position[j]];
        }
        system.finish_matrix([&](std::ptrdiff_t j) {
            const T own = system.A[j * (system.stride + 1)];
            return own < 0 ? -own : own;
        });
        system.solve(query, k, given.prior[query], [&](std::ptrdiff_t j) {
            return given.targets + (query * k + system.position[j]) * given.right;
        }, out);
    }
}

// ---- gradients -------------------------------------------------------------------------------------------------------

// Adds the diagonal of the sum of outer products, from differences of rows, which do not cancel.
template <class T>
MERCER_NOINLINE void diagonal_gradient(const Neighbors<T>& neighbors, const T* left, const T* right, const T* cross,
                                       double* out, T* scratch) {
    System<T> system(neighbors.count, 0, scratch);
    const std::ptrdiff_t d = neighbors.rows.columns, stride = system.stride;
    T* a = system.inverse;
    T* b = system.least;
    T* u = system.noise;
    T* sums = scratch + System<T>::size(neighbors.count, 0);  // one pack per feature
    for (std::ptrdiff_t query = 0; query < neighbors.queries.rows; ++query) {
        system.select(neighbors, query, nullptr, 0);
        if (system.count == 0) continue;
        ask_for_next(neighbors, query);
        for (std::ptrdiff_t i = 0; i < stride; ++i) {
            const bool there = i < system.count;
            const std::ptrdiff_t from = query * neighbors.count + (there ? system.position[i] : 0);
            a[i] = there ? left[from] : T(0);
            b[i] = there ? right[from] : T(0);
            u[i] = there ? cross[from] : T(0);
        }
        system.pad_rows(neighbors.queries.data + query * neighbors.queries.stride);
        system.squared_distances(d);
        apply_profile<T, true>(neighbors.profile, system.A, stride, system.columns, system.rows());
        for (std::ptrdiff_t j = 0; j < system.columns; ++j) {
            T* column = system.A + j * stride;
            const T with_query = u[j] * column[system.columns];
            for (std::ptrdiff_t i = pack_start<T>(j / group * group); i < system.rows(); i += lanes<T>) {
                const Pack<T> pair = multiply_add<T>(load(a + i), broadcast(b[j]), load(b + i) * broadcast(a[j]));
                store(column + i, load(column + i) * pair);
            }
            for (std::ptrdiff_t i = pack_start<T>(j / group * group); i <= j; ++i) column[i] = T(0);
            column[system.columns] = with_query;
        }
        const auto add = [&](std::ptrdiff_t first, std::ptrdiff_t width) {
            for (std::ptrdiff_t p = 0; p < width * lanes<T>; ++p) sums[p] = T(0);
            for (std::ptrdiff_t j = 0; j < system.columns; j += group) {
                for_each_tile<T>(pack_start<T>(j), system.rows(), [&](auto packs, std::ptrdiff_t i) {
                    Tile<T, packs()> weight;
                    weight.read(system.A + j * stride + i, stride);
                    for (std::ptrdiff_t p = 0; p < width; ++p) {
                        const T* feature = system.X + p * stride;
                        Pack<T> sum = load(sums + p * lanes<T>);
                        MERCER_UNROLL
                        for (int r = 0; r < packs(); ++r) {
                            const Pack<T> x = load(feature + i + r * lanes<T>);
                            MERCER_UNROLL
                            for (int c = 0; c < group; ++c) {
                                const Pack<T> difference = x - broadcast(feature[j + c]);
                                sum = multiply_add<T>(weight.at[r][c] * difference, difference, sum);
                            }
                        }
                        store(sums + p * lanes<T>, sum);
                    }
                });
            }
            for (std::ptrdiff_t p = 0; p < width; ++p) {
                double total = 0;
                for (int lane = 0; lane < lanes<T>; ++lane) total += double(sums[p * lanes<T> + lane]);
                out[first + p] += total;
            }
        };
        if (d <= slab) add(0, d);  // all features are still in place
        else for_each_slab<T>(system.row, system.padded_rows(), d, system.X, stride, add);
    }
}

// Layout of the scratch memory of `full_gradient`, in elements: rows by features and by rows, centered on the query,
// their products with the weights, and the sum of outer products.
struct FullScratch {
    FullScratch(std::ptrdiff_t k, std::ptrdiff_t d)
        : stride(System<double>::stride_for(k, 0)),
          width(round_up(d, 2 * lanes<double>)),
          transposed(System<double>::size(k, 0)),
          centered(transposed + round_up(d, group) * stride),
          products(centered + round_up(k, group) * width),
          sum(products + round_up(d, group) * stride),
          size(sum + round_up(d, group) * width) {}

    std::ptrdiff_t stride, width, transposed, centered, products, sum, size;
};

// Adds the complete sum of outer products, X' B X for a symmetric matrix B of weights, in double precision: rows that
// are close to each other have large weights, which cancel in B X.
template <class T>
MERCER_NOINLINE void full_gradient(const Neighbors<T>& neighbors, const T* left, const T* right, const T* cross,
                                   double* out, double* scratch) {
    const std::ptrdiff_t d = neighbors.rows.columns, k = neighbors.count;
    const FullScratch part(k, d);
    const std::ptrdiff_t stride = part.stride, width = part.width;
    System<double> system(k, 0, scratch);
    double* B = system.L;
    double* transposed = scratch + part.transposed;
    double* centered = scratch + part.centered;
    double* products = scratch + part.products;
    double* sum = scratch + part.sum;
    for (double* at = transposed; at < scratch + part.size; ++at) *at = 0;
    for (std::ptrdiff_t query = 0; query < neighbors.queries.rows; ++query) {
        const std::int64_t* index = neighbors.indices + query * k;
        const T* own = neighbors.queries.data + query * neighbors.queries.stride;
        system.count = 0;
        for (std::ptrdiff_t j = 0; j < k; ++j) if (index[j] >= 0) system.position[system.count++] = j;
        if (system.count == 0) continue;
        const std::ptrdiff_t columns = system.columns = round_up(system.count, group);
        for (std::ptrdiff_t i = 0; i < columns; ++i) {
            const bool there = i < system.count;
            const T* row = there ? neighbors.rows.data + index[system.position[i]] * neighbors.rows.stride : own;
            for (std::ptrdiff_t p = 0; p < d; ++p)
                transposed[p * stride + i] = centered[i * width + p] = double(row[p]) - double(own[p]);
        }
        for (std::ptrdiff_t i = columns; i < stride; ++i)
            for (std::ptrdiff_t p = 0; p < d; ++p) transposed[p * stride + i] = 0;
        system.X = transposed;
        system.update(d, true, AddSquaredDifference<double>());
        double* squares = system.noise;
        for (std::ptrdiff_t j = 0; j < columns; ++j) squares[j] = system.A[j * stride + columns];
        // Slopes of the exponential at distances for which the products below have no correct digit are omitted: they
        // contribute in proportion to the distance.
        const double eps = std::numeric_limits<double>::epsilon();
        if (neighbors.profile == Profile::matern12)
            for (std::ptrdiff_t j = 0; j < columns; ++j)
                for (std::ptrdiff_t i = j + 1; i < columns; ++i)
                    if (system.A[j * stride + i] < eps * (squares[i] + squares[j])) system.A[j * stride + i] = 0;
        apply_profile<double, true>(neighbors.profile, system.A, stride, columns, system.rows());
        for (std::ptrdiff_t j = 0; j < columns; ++j) {
            const std::ptrdiff_t at = query * k + (j < system.count ? system.position[j] : 0);
            B[j * stride + j] = j < system.count ? double(cross[at]) * system.A[j * stride + columns] : 0;
        }
        for (std::ptrdiff_t j = 0; j < columns; ++j) {
            for (std::ptrdiff_t i = j + 1; i < columns; ++i) {
                double pair = 0;
                if (i < system.count) {
                    const std::ptrdiff_t p = query * k + system.position[i], q = query * k + system.position[j];
                    pair = (double(left[p]) * double(right[q]) + double(right[p]) * double(left[q])) *
                           system.A[j * stride + i];
                }
                B[j * stride + i] = B[i * stride + j] = -pair;
                B[j * stride + j] += pair;
                B[i * stride + i] += pair;
            }
        }
        for (std::ptrdiff_t p = 0; p < d; p += group) {
            for_each_tile<double>(0, columns, [&](auto packs, std::ptrdiff_t i) {
                Tile<double, packs()> tile;
                tile.clear();
                tile.accumulate(B + i, stride, transposed + p * stride, 1, stride, columns, AddProduct<double>());
                tile.write(products + p * stride + i, stride);
            });
        }
        for (std::ptrdiff_t q = 0; q < d; q += group) {
            for_each_tile<double>(pack_start<double>(q), d, [&](auto packs, std::ptrdiff_t p) {
                Tile<double, packs()> tile;
                double* to = sum + q * width + p;
                tile.read(to, width);
                tile.accumulate(centered + p, width, products + q * stride, 1, stride, columns, AddProduct<double>());
                tile.write(to, width);
            });
        }
    }
    for (std::ptrdiff_t q = 0; q < d; ++q) {
        for (std::ptrdiff_t p = q; p < d; ++p) {
            out[q * d + p] += sum[q * width + p];
            if (p > q) out[p * d + q] += sum[q * width + p];
        }
    }
}

// Elements of scratch memory that `metric_gradient` needs, in double precision if `full`.
template <class T>
std::ptrdiff_t gradient_scratch(std::ptrdiff_t k, std::ptrdiff_t d, bool full) {
    return full ? FullScratch(k, d).size : System<T>::size(k, 0) + slab * lanes<T>;
}

template <class T>
void metric_gradient(Neighbors<T> neighbors, const T* left, const T* right, const T* cross, bool full, double* out,
                     void* scratch) {
    if (full) full_gradient(neighbors, left, right, cross, out, static_cast<double*>(scratch));
    else diagonal_gradient(neighbors, left, right, cross, out, static_cast<T*>(scratch));
}

}  // namespace
}  // namespace mercer
