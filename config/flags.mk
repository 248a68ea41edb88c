# lode's own flags, and where each kind of build lies.
#
# They stand after the user's CFLAGS, so that they win: results are promised to
# the bit, and that must survive CFLAGS="-Ofast -march=native".

ifeq ($(origin CC),default)
CC := cc
endif
LIBFLAG ?= -shared

ifeq ($(SAN),1)
BUILD  ?= build/san
CFLAGS ?= -O1 -g
else ifeq ($(TSAN),1)
BUILD  ?= build/tsan
CFLAGS ?= -O1 -g
else
BUILD  ?= build
CFLAGS ?= -O3 -g
endif

# No contraction, no value-changing rearrangement, no subnormals flushed. errno
# and floating-point traps are not observed, and honouring them blocks vectors: they
# stand last, since gcc's -fno-unsafe-math-optimizations would honour traps again.
LODE_CFLAGS = -std=gnu11 -fPIC -fvisibility=hidden -fno-lto -funwind-tables \
  -fno-fast-math -fno-associative-math -fno-reciprocal-math \
  -fno-finite-math-only -fsigned-zeros -ffp-contract=off $(GCC_CFLAGS) -fno-math-errno -fno-trapping-math \
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wpointer-arith -Wcast-qual \
  -Wwrite-strings $(CLANG_CFLAGS) $(if $(filter 1,$(WERROR)),-Werror) $(SAN_FLAGS)
LODE_CPPFLAGS = -Icsrc $(ISA_DEFINES) $(LAPACK_DEFINES) $(CUDA_DEFINES)

# nodelete: lua_close unmaps modules, and lode's threads may still run in them.
# Link-time -Ofast and -ffast-math would add crtfastmath.o, whose constructor
# makes the whole process flush subnormals to zero; so they are dropped.
LODE_LDFLAGS = -Wl,-z,nodelete $(SAN_FLAGS)
USER_LDFLAGS = $(filter-out -Ofast -ffast-math -funsafe-math-optimizations -flto -flto=%,$(LDFLAGS))
Z_DEFS       = $(if $(SAN_FLAGS),,-Wl,-z,defs)

# ---- sanitizers -------------------------------------------------------------

# The interpreter is not instrumented, so the runtime is loaded before it. Leaks
# are not looked for: LeakSanitizer does not see references that lie in LuaJIT's
# own heap, and the specs count live objects themselves.
ifeq ($(SAN),1)
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_ENV    = "LD_PRELOAD=$(shell $(CC) -print-file-name=libasan.so)" \
             "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:quarantine_size_mb=8:$(ASAN_OPTIONS)" "UBSAN_OPTIONS=print_stacktrace=1:$(UBSAN_OPTIONS)"
endif
ifeq ($(TSAN),1)
SAN_FLAGS := -fsanitize=thread -fno-omit-frame-pointer
SAN_ENV    = "LD_PRELOAD=$(shell $(CC) -print-file-name=libtsan.so)" "TSAN_OPTIONS=halt_on_error=1:$(TSAN_OPTIONS)"
endif
