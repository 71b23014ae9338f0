// Separate from the kernel sets, because <cmath> defines inline functions: if they were compiled for
// AVX-512 there, the linker could use that copy for every caller.
#include <cmath>

#include "kernels.h"

namespace mercer {

void library_sincos(double angle, double* sine, double* cosine) {
    *sine = std::sin(angle);
    *cosine = std::cos(angle);
}

}  // namespace mercer
