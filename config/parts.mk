# What this machine can build, found out by asking the compiler, and the report
# of what was built and why.
#
#   LAPACK=0   without OpenBLAS: no solve, lu, cholesky
#   CUDA=0     without the CUDA device
#   CUDA_ARCH  what kernels are built for: all-major (every major architecture that
#              nvcc knows, and PTX for newer ones), or one, as 90

LAPACK ?= 1
CUDA   ?= 1
CUDA_ARCH ?= all-major

ifneq ($(BUILDING),)

compiles = $(shell $(CC) $(1) -Werror -x c -c -o /dev/null /dev/null >/dev/null 2>&1 && echo yes)
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))

# gcc alone needs these: clang has no such modes, or ends them with -fno-fast-math.
GCC_CFLAGS := -fno-unsafe-math-optimizations -fexcess-precision=standard -fno-cx-limited-range -fno-allow-store-data-races
GCC_CFLAGS := $(if $(call compiles,$(GCC_CFLAGS)),$(GCC_CFLAGS))
# clang warns where it does not vectorize a loop that asks for it.
CLANG_CFLAGS := $(if $(GCC_CFLAGS),,-Wno-pass-failed)

# ---- instruction sets -------------------------------------------------------

# csrc/cpu/isa/*.c is compiled once for each; the CPU device chooses at run time.
# None contracts (-ffp-contract=off): multiply-adds are fused where elementary.h asks for it.
ISAS := baseline
ifeq ($(MACHINE),x86_64)
BASE_MARCH         := -march=x86-64 -mtune=generic -mfpmath=sse
ISA_FLAGS_baseline := $(BASE_MARCH)
ISA_FLAGS_avx2     := $(BASE_MARCH) -mavx2 -mfma
ISA_FLAGS_avx512   := -march=x86-64-v4 -mtune=generic -mfpmath=sse -mprefer-vector-width=512
ISAS        += $(foreach isa,avx2 avx512,$(if $(call compiles,$(ISA_FLAGS_$(isa))),$(isa)))
ISA_DEFINES := $(if $(filter avx2,$(ISAS)),-DLODE_ISA_AVX2) $(if $(filter avx512,$(ISAS)),-DLODE_ISA_AVX512)
endif
MARCH = $(BASE_MARCH)

# The loops of isa/ are written for the vectorizer: LuaRocks' -O2 would leave them
# scalar. A person who debugs (-O0, -Og, -O1) keeps the level.
ISA_LEVEL := $(if $(filter -O0 -Og -O1,$(CFLAGS)),,-O3)

# ---- LAPACK -----------------------------------------------------------------

ifeq ($(LAPACK),0)
LAPACK_WHY := LAPACK=0
else ifeq ($(wildcard csrc/cpu/lapack/*.c),)
LAPACK_WHY := no sources in csrc/cpu/lapack
else
# Fedora's folder, for a machine without pkg-config; Debian's cblas.h is in the compiler's path.
LAPACK_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I openblas 2>/dev/null))
LAPACK_CFLAGS := $(or $(LAPACK_CFLAGS),$(addprefix -isystem ,$(wildcard /usr/include/openblas)))
LAPACK_DIRS   := $(shell pkg-config --libs-only-L openblas 2>/dev/null)
define LAPACK_PROBE
printf '%s\n' '#include <cblas.h>' 'void dgetrf_(void);' 'int main(void) { dgetrf_(); return (int)cblas_idamax(0, 0, 0); }' \
  | $(CC) $(LAPACK_CFLAGS) -x c -o /dev/null - $(LAPACK_DIRS)
endef
# OpenBLAS holds LAPACK; where it was built without, the reference one is beside it.
LAPACK_LIBS := $(firstword $(foreach libs,-lopenblas -lopenblas;-llapack -lblas;-llapack,\
                 $(if $(shell $(LAPACK_PROBE) $(subst ;, ,$(libs)) >/dev/null 2>&1 && echo yes),$(libs))))
LAPACK_LIBS := $(subst ;, ,$(LAPACK_LIBS))
ifeq ($(LAPACK_LIBS),)
LAPACK_WHY := $(if $(shell echo '\#include <cblas.h>' | $(CC) $(LAPACK_CFLAGS) -x c -E - >/dev/null 2>&1 || echo no),cblas.h not found,libopenblas does not link)
LAPACK_WHY := $(LAPACK_WHY); "make deps" says what to install
else
LAPACK_FOUND   := yes
LAPACK_DEFINES := -DLODE_HAVE_LAPACK
endif
endif

# ---- CUDA -------------------------------------------------------------------

# The device itself needs cuda.h and nvcc to build, and the driver alone to run.
# NVRTC, and cuBLAS with cuSOLVER, are parts that link their libraries; where the
# loader does not find these by itself they are looked for where they were built.
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
CUDA_LIB  := $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib))
CUDA_WHY  := $(if $(filter 0,$(CUDA)),CUDA=0,$(if $(NVCC),$(if $(wildcard $(CUDA_HOME)/include/cuda.h),,no cuda.h in $(CUDA_HOME)/include),no nvcc found))
ifeq ($(CUDA_WHY),)
CUDA_FOUND   := yes
NVRTC_FOUND  := $(if $(wildcard $(CUDA_HOME)/include/nvrtc.h),$(if $(wildcard $(CUDA_LIB)/libnvrtc.so),yes))
CUBLAS_FOUND := $(if $(wildcard $(CUDA_HOME)/include/cusolverDn.h),$(if $(wildcard $(CUDA_LIB)/libcusolver.so),yes))
CUDA_CFLAGS  := -isystem $(CUDA_HOME)/include
CUDA_DEFINES := -DLODE_HAVE_CUDA $(if $(NVRTC_FOUND),-DLODE_HAVE_NVRTC) $(if $(CUBLAS_FOUND),-DLODE_HAVE_CUBLAS)
# all-major: the first architecture of every major version that this nvcc knows, from 7.5 on, and PTX of the last
# for what is newer. (nvcc's own -arch=all-major has some that are too old, before CUDA 13.)
CUDA_MAJORS   = $(shell $(NVCC) --list-gpu-arch | sed 's/compute_//' | sort -n | awk '$$1 >= 75 && !(int($$1 / 10) in seen) { seen[int($$1 / 10)] = 1; print $$1 }')
CUDA_GENCODE  = $(if $(filter all-major,$(CUDA_ARCH)),$(foreach arch,$(CUDA_MAJORS),-gencode arch=compute_$(arch)$(comma)code=sm_$(arch)) -gencode arch=compute_$(lastword $(CUDA_MAJORS))$(comma)code=compute_$(lastword $(CUDA_MAJORS)),-arch=sm_$(CUDA_ARCH))
CUDA_LINK     = -L$(CUDA_LIB) -Wl,--enable-new-dtags,-rpath,$(CUDA_LIB)
endif

# ---- the report -------------------------------------------------------------

define REPORT
printf '%s\n' \
  'lode $(VERSION) for $(LUA_NAME) (headers: $(LUA_INCDIR))$(if $(SAN_FLAGS), with $(SAN_FLAGS))' \
  '  built    $(MODULES)' \
  '  cpu      $(ISAS)$(if $(filter x86_64,$(MACHINE)),, (no others for $(MACHINE)))' \
  '  lapack   $(if $(LAPACK_FOUND),yes: $(LAPACK_LIBS),no: $(LAPACK_WHY))' \
  '  cuda     $(if $(CUDA_WHY),no: $(CUDA_WHY),yes: $(NVCC)$(comma) $(CUDA_ARCH)$(if $(NVRTC_FOUND),,$(comma) no NVRTC)$(if $(CUBLAS_FOUND),,$(comma) no cuBLAS and cuSOLVER))'
endef

endif
