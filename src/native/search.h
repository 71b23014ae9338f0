// Nearest rows of queries, by a filter in float32 and distances in float64 of the rows that pass it.
//
// Rows are stored cell by cell, relative to the center of their cell, in panels of `panel_rows` rows. The filter
// computes a lower bound of each squared distance: |x|^2 - 2 x'q + |q|^2 minus its largest rounding error. A row
// whose lower bound exceeds the upper bounds of `count` other rows is not a neighbor. Cells and panels are skipped by
// the triangle inequality, with a margin for rounding, so the result is that of all distances.
#pragma once

#include <cmath>
#include <limits>

#include "kernels.h"
#include "lanes.h"

namespace mercer {
namespace {

constexpr int row_packs = int(panel_rows) / lanes<float>;
// Queries that are compared with a panel together; with the operands, their sums fill the registers.
constexpr int tile_queries = row_packs == 1 ? 12 : row_packs == 2 ? 6 : 3;
static_assert(panel_rows % lanes<float> == 0, "a panel is whole packs");

// Entries beyond this, in units of the largest cell, are not rounded to float32; such queries are not filtered.
constexpr double largest_entry = 1e15;
// Relative margin of bounds that are computed in float64 by few operations.
constexpr double float64_margin = 1e-13;
// Squares below this may underflow in float32.
constexpr double float32_underflow = 1e-40;

// Bound of the error of the filter relative to |x|^2 + |q|^2: the roundings of x and q to float32, and of sums.
MERCER_INLINE double filter_error(std::ptrdiff_t d) { return (2.1 * double(d) + 16.0) * 5.9604644775390625e-08; }

// Squared distance by differences, always in the same order of operations.
template <class T>
MERCER_NOINLINE double squared_distance(const T* x, const T* y, std::ptrdiff_t d) {
    double sum[8] = {};
    std::ptrdiff_t j = 0;
    for (; j + 8 <= d; j += 8) {
        MERCER_UNROLL
        for (int i = 0; i < 8; ++i) {
            const double gap = double(x[j + i]) - double(y[j + i]);
            sum[i] += gap * gap;
        }
    }
    for (int i = 0; j < d; ++j, ++i) {
        const double gap = double(x[j]) - double(y[j]);
        sum[i] += gap * gap;
    }
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

MERCER_INLINE float rounded_up(double x) {
    return float(x + std::fabs(x) * 2.4e-7 + float32_underflow);
}

// Fills positions of the cells `first` to `last` from rows in their original order.
template <class T>
void pack_rows(Rows<const T> from, Cells<T> cells, std::ptrdiff_t first, std::ptrdiff_t last, T* rows, float* panels,
               float* lows, double* lengths) {
    const std::ptrdiff_t d = from.columns;
    const double error = filter_error(d), infinity = std::numeric_limits<double>::infinity();
    for (std::ptrdiff_t cell = first; cell < last; ++cell) {
        const double* center = cells.centers + cell * d;
        for (std::ptrdiff_t panel = cells.starts[cell]; panel < cells.starts[cell + 1]; ++panel) {
            double least = infinity, most = 0.0;
            for (std::ptrdiff_t i = 0; i < panel_rows; ++i) {
                const std::ptrdiff_t position = panel * panel_rows + i;
                float* to = panels + panel * panel_rows * d + i;
                if (cells.index[position] < 0) {
                    for (std::ptrdiff_t j = 0; j < d; ++j) rows[position * d + j] = T(0);
                    for (std::ptrdiff_t j = 0; j < d; ++j) to[j * panel_rows] = 0.0f;
                    lows[position] = float(infinity);
                    continue;
                }
                const T* x = from.data + cells.index[position] * from.stride;
                double square = 0.0;
                for (std::ptrdiff_t j = 0; j < d; ++j) {
                    rows[position * d + j] = x[j];
                    const double gap = double(x[j]) * cells.scale - center[j];
                    square += gap * gap;
                    to[j * panel_rows] = float(gap);
                }
                lows[position] = float((1.0 - error) * square);
                const double length = std::sqrt(square);
                least = length < least ? length : least;
                most = length > most ? length : most;
            }
            const double margin = float64_margin + double(d) * 2.3e-16;
            lengths[2 * panel] = least * (1.0 - margin);
            lengths[2 * panel + 1] = most * (1.0 + margin);
        }
    }
}

// A row that may be a neighbor: bounds of its squared distance, and its position.
struct Candidate {
    double low;
    double high;
    std::ptrdiff_t position;
};

// State of the search for one query.
struct Search {
    std::ptrdiff_t found;    // number of candidates
    double limit;            // no row with a squared distance above it is a neighbor
    double root;             // square root of the limit
    double reach;            // cells beyond this distance are skipped
    double home_square;      // squared distance to the center of the home cell
    double home_distance;    // its root, rounded up
    std::ptrdiff_t group;    // queries of the same home cell are a group
    bool filtered;
    // In the current cell:
    double square;           // squared distance to the center
    double length;           // its root
    double low;              // what is added to the results of the filter
    float threshold;         // results of the filter above it are not neighbors
};

struct SearchScratch {
    SearchScratch(std::ptrdiff_t m, std::ptrdiff_t d, std::ptrdiff_t n_cells, std::ptrdiff_t count)
        : capacity(2 * count + 8),
          searches(0),
          queries(searches + m * std::ptrdiff_t(sizeof(Search))),
          distances(queries + m * d * 8),
          candidates(distances + m * n_cells * 8),
          keys(candidates + m * capacity * std::ptrdiff_t(sizeof(Candidate))),
          active(keys + capacity * 8),
          gap(active + m * 8),
          tiles((gap + d * 8 + 63) / 64 * 64),
          bytes(tiles + (m + tile_queries) * d * 4) {}

    std::ptrdiff_t capacity;    // candidates of a query
    std::ptrdiff_t searches;    // offsets in bytes
    std::ptrdiff_t queries;     // scaled queries in float64
    std::ptrdiff_t distances;   // from home cells to all cells, one row per group
    std::ptrdiff_t candidates;
    std::ptrdiff_t keys;
    std::ptrdiff_t active;      // queries that are compared with a cell
    std::ptrdiff_t gap;
    std::ptrdiff_t tiles;       // -2 (q - center), interleaved by tiles
    std::ptrdiff_t bytes;
};

template <class T>
std::ptrdiff_t nearest_scratch(std::ptrdiff_t m, std::ptrdiff_t d, std::ptrdiff_t n_cells, std::ptrdiff_t count) {
    return SearchScratch(m, d, n_cells, count).bytes;
}

// The value that has `rank` smaller ones before it; the keys are reordered.
inline double select_key(double* key, std::ptrdiff_t size, std::ptrdiff_t rank) {
    std::ptrdiff_t left = 0, right = size - 1;
    while (left < right) {
        const double a = key[left], b = key[(left + right) / 2], c = key[right];
        const double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        std::ptrdiff_t i = left, j = right;
        while (i <= j) {
            while (key[i] < pivot) ++i;
            while (pivot < key[j]) --j;
            if (i <= j) {
                const double swapped = key[i];
                key[i++] = key[j];
                key[j--] = swapped;
            }
        }
        if (rank <= j) right = j;
        else if (rank >= i) left = i;
        else return key[rank];
    }
    return key[rank];
}

template <class T>
class NearestSearch {
  public:
    NearestSearch(Rows<const T> X, const std::int64_t* homes, const Cells<T>& cells, const Limits& limits,
                  std::int64_t* indices, std::ptrdiff_t index_stride, double* squares, std::ptrdiff_t square_stride,
                  char* scratch)
        : X(X), homes(homes), cells(cells), limits(limits), indices(indices), index_stride(index_stride),
          squares(squares), square_stride(square_stride), d(X.columns), error(filter_error(X.columns)),
          margin(float64_margin + double(X.columns) * 2.3e-16),
          part(X.rows, X.columns, cells.count, limits.count),
          searches(reinterpret_cast<Search*>(scratch + part.searches)),
          queries(reinterpret_cast<double*>(scratch + part.queries)),
          distances(reinterpret_cast<double*>(scratch + part.distances)),
          candidates(reinterpret_cast<Candidate*>(scratch + part.candidates)),
          keys(reinterpret_cast<double*>(scratch + part.keys)),
          active(reinterpret_cast<std::int64_t*>(scratch + part.active)),
          gap(reinterpret_cast<double*>(scratch + part.gap)),
          tiles(reinterpret_cast<float*>(scratch + part.tiles)) {}

    void run() {
        std::ptrdiff_t groups = 0;
        for (std::ptrdiff_t first = 0, end; first < X.rows; first = end, ++groups) {
            end = first + 1;
            while (end < X.rows && homes[end] == homes[first]) ++end;
            for (std::ptrdiff_t q = first; q < end; ++q) start(q, groups);
            visit_nearest(first, end, groups);
        }
        for (std::ptrdiff_t cell = 0; cell < cells.count; ++cell) {
            std::ptrdiff_t count = 0;
            double base = 0.0;
            bool visited = true;
            for (std::ptrdiff_t q = 0, group = -1; q < X.rows; ++q) {
                const Search& search = searches[q];
                if (search.group != group) {
                    group = search.group;
                    const double between = distances[group * cells.count + cell];
                    visited = between < 0;
                    // Half of the distance is that to the plane between the cells.
                    base = larger_of(between - cells.radii[cell], 0.5 * between) - margin * between;
                }
                if (!visited && !(base - search.home_distance > search.reach)) active[count++] = q;
            }
            if (count) visit(cell, count);
        }
        for (std::ptrdiff_t q = 0; q < X.rows; ++q) finish(q);
    }

  private:
    static double larger_of(double a, double b) { return a < b ? b : a; }

    Candidate* of(std::ptrdiff_t q) { return candidates + q * part.capacity; }

    void start(std::ptrdiff_t q, std::ptrdiff_t group) {
        const double infinity = std::numeric_limits<double>::infinity();
        Search& search = searches[q];
        const T* x = X.data + q * X.stride;
        double* scaled = queries + q * d;
        const double* center = cells.centers + homes[q] * d;
        double most = 0.0, square = 0.0;
        for (std::ptrdiff_t j = 0; j < d; ++j) {
            scaled[j] = double(x[j]) * cells.scale;
            const double apart = scaled[j] - center[j];
            square += apart * apart;
            most = larger_of(most, std::fabs(apart));
        }
        search.found = 0;
        search.limit = search.root = search.reach = infinity;
        search.home_square = square;
        search.home_distance = std::sqrt(square) * (1.0 + margin);
        search.group = group;
        search.filtered = most < largest_entry;
    }

    // Distances from the home of a group to all cells; visits the nearest ones, from near to far.
    void visit_nearest(std::ptrdiff_t first, std::ptrdiff_t end, std::ptrdiff_t group) {
        double* between = distances + group * cells.count;
        const double* home = cells.centers + homes[first] * d;
        for (std::ptrdiff_t cell = 0; cell < cells.count; ++cell)
            between[cell] = std::sqrt(squared_distance(home, cells.centers + cell * d, d));
        for (std::ptrdiff_t visits = 0; visits < smaller(cells.first_visits, cells.count); ++visits) {
            std::ptrdiff_t nearest = -1;
            for (std::ptrdiff_t cell = 0; cell < cells.count; ++cell)
                if (between[cell] >= 0 && (nearest < 0 || between[cell] < between[nearest])) nearest = cell;
            if (nearest < 0) return;
            for (std::ptrdiff_t q = first; q < end; ++q) active[q - first] = q;
            visit(nearest, end - first);
            between[nearest] = -1.0;
        }
    }

    // Compares queries with the rows of a cell. Their indices are in `active`.
    void visit(std::ptrdiff_t cell, std::ptrdiff_t count) {
        const double radius = cells.radii[cell];
        const double* center = cells.centers + cell * d;
        std::ptrdiff_t near = 0;
        for (std::ptrdiff_t a = 0; a < count; ++a) {
            const std::ptrdiff_t q = active[a];
            Search& search = searches[q];
            const double* x = queries + q * d;
            float* to = tiles + (near / tile_queries) * tile_queries * d + near % tile_queries;
            double sum[4] = {};
            std::ptrdiff_t j = 0;
            for (; j + 4 <= d; j += 4) {
                MERCER_UNROLL
                for (int i = 0; i < 4; ++i) {
                    const double apart = x[j + i] - center[j + i];
                    sum[i] += apart * apart;
                    gap[j + i] = apart;
                }
            }
            for (; j < d; ++j) {
                const double apart = x[j] - center[j];
                sum[0] += apart * apart;
                gap[j] = apart;
            }
            const double square = (sum[0] + sum[1]) + (sum[2] + sum[3]), length = std::sqrt(square);
            if (length - radius - margin * (length + radius) > search.reach) continue;
            const double between = distances[search.group * cells.count + cell];
            const double plane = square - search.home_square - 4 * margin * (square + search.home_square);
            if (between > 0 && plane > 2 * (1 + margin) * between * search.reach) continue;
            for (j = 0; j < d; ++j) to[j * tile_queries] = search.filtered ? float(-2.0 * gap[j]) : 0.0f;
            search.square = square;
            search.length = length;
            search.low = (1.0 - error) * square;
            set_threshold(search);
            active[near++] = q;
        }
        // Zeros take the place of missing queries of the last tile.
        for (std::ptrdiff_t a = near; a % tile_queries; ++a) {
            float* to = tiles + (a / tile_queries) * tile_queries * d + a % tile_queries;
            for (std::ptrdiff_t j = 0; j < d; ++j) to[j * tile_queries] = 0.0f;
        }
        for (std::ptrdiff_t a = 0; a < near; a += tile_queries) compare(cell, a, smaller(tile_queries, near - a));
    }

    void set_threshold(Search& search) {
        search.threshold = search.filtered ? rounded_up(search.limit - search.low)
                                           : std::numeric_limits<float>::infinity();
    }

    // Compares a tile of `count` queries, from `active[first]` on, with the panels of a cell.
    void compare(std::ptrdiff_t cell, std::ptrdiff_t first, std::ptrdiff_t count) {
        const float* tile = tiles + first * d;
        double near = std::numeric_limits<double>::infinity(), far = 0.0;
        float threshold[tile_queries];
        for (std::ptrdiff_t i = 0; i < tile_queries; ++i) {
            threshold[i] = -std::numeric_limits<float>::infinity();
            if (i >= count) continue;
            const Search& search = searches[active[first + i]];
            threshold[i] = search.threshold;
            const double slack = margin * search.length;
            const double least = search.filtered ? search.length - search.root - slack : 0.0;
            const double most = search.length + search.root + slack;
            near = least < near ? least : near;
            far = most > far || most != most ? most : far;
        }
        for (std::ptrdiff_t panel = cells.starts[cell]; panel < cells.starts[cell + 1]; ++panel) {
            if (cells.lengths[2 * panel + 1] < near) continue;
            if (cells.lengths[2 * panel] > far) break;
            const float* values = cells.panels + panel * panel_rows * d;
            const float* lows = cells.lows + panel * panel_rows;
            Pack<float> sum[tile_queries][row_packs];
            MERCER_UNROLL
            for (int i = 0; i < tile_queries; ++i) {
                MERCER_UNROLL
                for (int k = 0; k < row_packs; ++k) sum[i][k] = load(lows + k * lanes<float>);
            }
            for (std::ptrdiff_t j = 0; j < d; ++j) {
                Pack<float> x[row_packs];
                MERCER_UNROLL
                for (int k = 0; k < row_packs; ++k) x[k] = load(values + j * panel_rows + k * lanes<float>);
                MERCER_UNROLL
                for (int i = 0; i < tile_queries; ++i) {
                    const Pack<float> q = broadcast(tile[j * tile_queries + i]);
                    MERCER_UNROLL
                    for (int k = 0; k < row_packs; ++k) sum[i][k] = multiply_add<float>(q, x[k], sum[i][k]);
                }
            }
            Bits<float> passed = Bits<float>{};
            MERCER_UNROLL
            for (int i = 0; i < tile_queries; ++i) {
                const Pack<float> most = broadcast(threshold[i]);
                MERCER_UNROLL
                for (int k = 0; k < row_packs; ++k) passed = passed | at_most(sum[i][k], most);
            }
            if (any_bit<float>(passed)) {
                MERCER_UNROLL
                for (int i = 0; i < tile_queries; ++i) {
                    const Pack<float> most = broadcast(threshold[i]);
                    Bits<float> some = at_most(sum[i][0], most);
                    MERCER_UNROLL
                    for (int k = 1; k < row_packs; ++k) some = some | at_most(sum[i][k], most);
                    if (i >= count || !any_bit<float>(some)) continue;
                    float stored[panel_rows];
                    MERCER_UNROLL
                    for (int k = 0; k < row_packs; ++k) store(stored + k * lanes<float>, sum[i][k]);
                    threshold[i] = take(active[first + i], panel, stored);
                }
            }
        }
    }

    // Lanes where a <= b have all bits set.
    static MERCER_INLINE Bits<float> at_most(Pack<float> a, Pack<float> b) {
#ifdef MERCER_VECTOR_TYPES
        return Bits<float>(a <= b);
#else
        Bits<float> bits;
        for (int i = 0; i < lanes<float>; ++i) bits.lane[i] = a.lane[i] <= b.lane[i] ? ~std::uint32_t(0) : 0;
        return bits;
#endif
    }

    // Adds the rows of a panel that pass the filter to the candidates of a query; returns its new threshold.
    MERCER_NOINLINE float take(std::ptrdiff_t q, std::ptrdiff_t panel, const float* values) {
        Search& search = searches[q];
        for (std::ptrdiff_t i = 0; i < panel_rows; ++i) {
            if (!(values[i] <= search.threshold)) continue;
            const std::ptrdiff_t position = panel * panel_rows + i;
            const std::int64_t row = cells.index[position];
            if (row < 0 || (limits.own && limits.own[q] == row) || (limits.before && row >= limits.before[q])) continue;
            Candidate& candidate = of(q)[search.found++];
            candidate.position = position;
            if (search.filtered) {
                const double square = double(cells.lows[position]) / (1.0 - error) + search.square;
                candidate.low = double(values[i]) + search.low;
                candidate.high = candidate.low + 2.0 * error * square + float32_underflow * double(d);
            } else {
                candidate.low = 0.0;
                candidate.high = std::numeric_limits<double>::infinity();
            }
            if (search.found == part.capacity) {
                reduce(q);
                set_threshold(search);
            }
        }
        return search.threshold;
    }

    // Removes candidates that are not neighbors. At least a quarter of the capacity is free afterwards.
    void reduce(std::ptrdiff_t q) {
        Search& search = searches[q];
        Candidate* candidate = of(q);
        const std::ptrdiff_t count = limits.count;
        if (search.found < count) return;
        for (std::ptrdiff_t i = 0; i < search.found; ++i) keys[i] = candidate[i].high;
        set_limit(search, select_key(keys, search.found, count - 1));
        std::ptrdiff_t left = 0;
        for (std::ptrdiff_t i = 0; i < search.found; ++i)
            if (candidate[i].low <= search.limit) candidate[left++] = candidate[i];
        search.found = left;
        if (left <= part.capacity - (part.capacity - count) / 2) return;
        // So many at nearly the same distance: their distances decide.
        refine(q);
        const double rounding = margin + double(d) * 2.3e-16, square = cells.scale * cells.scale;
        for (std::ptrdiff_t i = 0; i < search.found; ++i) {
            candidate[i].high = candidate[i].low * square * (1.0 + rounding);
            candidate[i].low *= square * (1.0 - rounding);
        }
        set_limit(search, candidate[count - 1].high);
    }

    void set_limit(Search& search, double limit) {
        if (limit < search.limit) {
            search.limit = limit;
            search.root = std::sqrt(limit) * (1.0 + float64_margin);
            search.reach = cells.reach * search.root;
        }
    }

    // Whether candidate a, with its squared distance in `low`, is before b.
    bool before(const Candidate& a, const Candidate& b) const {
        return a.low < b.low || (a.low == b.low && cells.index[a.position] < cells.index[b.position]);
    }

    // Computes the squared distances of all candidates, in `low`, sorts them, and keeps at most `count`.
    void refine(std::ptrdiff_t q) {
        Search& search = searches[q];
        Candidate* heap = of(q);
        const T* x = X.data + q * X.stride;
        for (std::ptrdiff_t i = 0; i < search.found; ++i) {
#if defined(__GNUC__)
            if (i + 4 < search.found) __builtin_prefetch(cells.rows + heap[i + 4].position * d);
#endif
            heap[i].low = squared_distance(x, cells.rows + heap[i].position * d, d);
        }
        const std::ptrdiff_t size = search.found;
        for (std::ptrdiff_t i = size / 2; i-- > 0;) sift(heap, i, size);
        for (std::ptrdiff_t end = size - 1; end > 0; --end) {
            const Candidate last = heap[end];
            heap[end] = heap[0];
            heap[0] = last;
            sift(heap, 0, end);
        }
        search.found = smaller(size, limits.count);
    }

    void sift(Candidate* heap, std::ptrdiff_t root, std::ptrdiff_t size) const {
        const Candidate moved = heap[root];
        for (std::ptrdiff_t child; (child = 2 * root + 1) < size; root = child) {
            if (child + 1 < size && before(heap[child], heap[child + 1])) ++child;
            if (!before(moved, heap[child])) break;
            heap[root] = heap[child];
        }
        heap[root] = moved;
    }

    void finish(std::ptrdiff_t q) {
        if (searches[q].found > limits.count + limits.count / 8) reduce(q);
        refine(q);
        const Candidate* nearest = of(q);
        for (std::ptrdiff_t i = 0; i < searches[q].found; ++i) {
            indices[q * index_stride + i] = cells.index[nearest[i].position];
            squares[q * square_stride + i] = nearest[i].low;
        }
    }

    const Rows<const T> X;
    const std::int64_t* homes;
    const Cells<T>& cells;
    const Limits& limits;
    std::int64_t* indices;
    const std::ptrdiff_t index_stride;
    double* squares;
    const std::ptrdiff_t square_stride;
    const std::ptrdiff_t d;
    const double error, margin;
    const SearchScratch part;
    Search* searches;
    double* queries;
    double* distances;
    Candidate* candidates;
    double* keys;
    std::int64_t* active;
    double* gap;
    float* tiles;
};

template <class T>
void nearest_rows(Rows<const T> X, const std::int64_t* homes, Cells<T> cells, Limits limits, Rows<std::int64_t> indices,
                  Rows<double> squares, char* scratch) {
    NearestSearch<T>(X, homes, cells, limits, indices.data, indices.stride, squares.data, squares.stride, scratch)
        .run();
}

}  // namespace
}  // namespace mercer
