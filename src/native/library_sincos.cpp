// Apart from the kernel sets, because <cmath> defines inline functions: compiled for AVX-512 there,
// the linker could keep that copy for every caller.
#include <cmath>

#include "kernels.h"

namespace mercer {

void library_sincos(double angle, double* sine, double* cosine) {
    *sine = std::sin(angle);
    *cosine = std::cos(angle);
}

}  // namespace mercer
