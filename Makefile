# lode's build. `make help` lists the targets and the variables.
#
# One tree of objects serves all Luas: only csrc/binding sees lua.h, so core, the
# CPU device and the parts are compiled once (build/obj) and linked for each Lua
# (build/<lua>/lode/*.so); the few files that hold the build id are compiled for
# each Lua. Sanitizer builds lie apart (build/san, build/tsan).
#
#   config/flags.mk   lode's own compiler and linker flags, sanitizers
#   config/lua.mk     which Lua, where its headers are, how to run it
#   config/parts.mk   what this machine can build: instruction sets, LAPACK, CUDA
#
# LuaRocks and packagers pass CFLAGS on the command line, which silently drops
# what a makefile adds to it: lode's flags are never in CFLAGS.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

ROOT    := $(CURDIR)
VERSION := scm-1
V       ?= 0

# Looking around (which compiler flags, which libraries) costs a tenth of a
# second: only the goals that build do it.
GOALS    := $(or $(MAKECMDGOALS),all)
BUILDING := $(filter-out help clean deps deps-demo deps-check env demo check check-long bench,$(GOALS))

include config/lua.mk
include config/flags.mk
include config/parts.mk

OBJ    := $(BUILD)/obj
MODULE := $(BUILD)/$(LUA_NAME)/lode
SCRIPT := $(BUILD)/$(LUA_NAME)/bin/lode

# ---- sources ----------------------------------------------------------------

CORE_C    := $(wildcard csrc/core/*.c csrc/devices.c)
CPU_C     := $(wildcard csrc/cpu/*.c)
ISA_C     := $(wildcard csrc/cpu/isa/*.c)
BINDING_C := $(wildcard csrc/binding/*.c)
LAPACK_C  := $(wildcard csrc/cpu/lapack/*.c)
CUDA_C    := $(wildcard csrc/cuda/*.c)
NVRTC_C   := $(wildcard csrc/cuda/nvrtc/*.c)
CUBLAS_C  := $(wildcard csrc/cuda/blas/*.c)
KERNELS   := $(wildcard kernels/*.cu)
SOURCES   := $(sort $(shell find csrc kernels -type f -name '*.[chS]' -o -type f -name '*.def' -o -type f -name '*.cu'))
# What of core holds no state is in the CUDA part too: a part cannot link against core.
CUDA_CORE_C := $(foreach name,cache device dtype ops part shape status system trace,csrc/core/$(name).c)

# A part must come from the same sources as the core that loads it. Only the
# files that use LODE_BUILD are compiled again when the sources change.
BUILD_ID      := $(VERSION)-$(firstword $(shell cat $(SOURCES) </dev/null | cksum))
BUILD_ID_USED := $(shell grep -lw LODE_BUILD -r csrc --include='*.c' 2>/dev/null)

LUA_OBJ    = $(BUILD)/$(LUA_NAME)/obj
lua_object = $(patsubst csrc/%.c,$(LUA_OBJ)/%.o,$(1))
object     = $(patsubst csrc/%.c,$(OBJ)/%.o,$(filter-out $(BUILD_ID_USED),$(1))) $(call lua_object,$(filter $(BUILD_ID_USED),$(1)))

SHARED_O  := $(call object,$(CORE_C) $(CPU_C)) $(foreach isa,$(ISAS),$(patsubst csrc/%.c,$(OBJ)/%.$(isa).o,$(ISA_C)))
BINDING_O := $(call lua_object,$(BINDING_C))
LAPACK_O  := $(call object,$(LAPACK_C))
CUDA_O    := $(call object,$(CUDA_C) $(CUDA_CORE_C)) $(OBJ)/cuda/blobs.o
NVRTC_O   := $(call object,$(NVRTC_C))
CUBLAS_O  := $(call object,$(CUBLAS_C))
MODULES   := $(MODULE)/core.so $(if $(LAPACK_FOUND),$(MODULE)/lapack.so) $(if $(CUDA_FOUND),$(MODULE)/cuda.so) \
             $(if $(NVRTC_FOUND),$(MODULE)/nvrtc.so) $(if $(CUBLAS_FOUND),$(MODULE)/cublas.so)

# ---- building ---------------------------------------------------------------

.PHONY: emulator all build rock demo check check-long bench deps deps-demo deps-check env install clean help run-demo run-check FORCE

all: build
	@$(REPORT)

build: $(MODULES) $(SCRIPT)

# What `luarocks make` asks for. It leaves the interpreter it built for where
# `luarocks test` finds it: LuaRocks runs that with an interpreter of its own.
rock: build
	@printf '%s\n' '$(LUA)' > $(BUILD)/last-$(LUA_VERSION)

ifeq ($(V),0)
say = @printf '  %-5s %s\n' '$(1)' '$(2)';
endif

COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) $(LODE_CPPFLAGS) $(LODE_CFLAGS) $(MARCH) $(EXTRA) -MMD -MP -c -o $@ $< $(COMPILED)
LINK    = $(CC) $(LIBFLAG) $(USER_LDFLAGS) $(LODE_LDFLAGS) -o $@ $(filter %.o,$^)

$(OBJ)/%.o: csrc/%.c $(OBJ)/flags
	$(call say,CC,$<)mkdir -p $(@D) && $(COMPILE)

define isa_rule
$(OBJ)/cpu/isa/%.$(1).o: MARCH = $(ISA_FLAGS_$(1))
$(OBJ)/cpu/isa/%.$(1).o: EXTRA = $(ISA_LEVEL) -falign-functions=64 -DLODE_ISA=$(1)
$(OBJ)/cpu/isa/%.$(1).o: csrc/cpu/isa/%.c $(OBJ)/flags
	$$(call say,CC,$$< $(1))mkdir -p $$(@D) && $$(COMPILE)
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))

$(OBJ)/cpu/lapack/%.o $(LUA_OBJ)/cpu/lapack/%.o: EXTRA = $(LAPACK_CFLAGS)

$(OBJ)/cuda/%.o $(LUA_OBJ)/cuda/%.o: EXTRA = $(CUDA_CFLAGS)

$(LUA_OBJ)/binding/%.o: EXTRA = -isystem $(LUA_INCDIR)
$(LUA_OBJ)/%.o: csrc/%.c $(OBJ)/flags $(BUILD)/$(LUA_NAME)/flags
	$(call say,CC,$< $(LUA_NAME))mkdir -p $(@D) && $(COMPILE)

$(MODULE)/core.so: $(BINDING_O) $(SHARED_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(LINK) -lpthread -ldl -lm && $(KEEP_ID)

$(MODULE)/lapack.so: $(LAPACK_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(LINK) $(Z_DEFS) $(LAPACK_DIRS) $(LAPACK_LIBS) -lpthread -ldl -lm && $(KEEP_ID)

$(MODULE)/cuda.so: $(CUDA_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(LINK) $(Z_DEFS) -lpthread -ldl -lm && $(KEEP_ID)

$(MODULE)/nvrtc.so: $(NVRTC_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(LINK) $(Z_DEFS) $(CUDA_LINK) -lnvrtc && $(KEEP_ID)

$(MODULE)/cublas.so: $(CUBLAS_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(LINK) $(Z_DEFS) $(CUDA_LINK) -lcusolver -lcublas && $(KEEP_ID)

# Kernels built ahead of time, one fatbin a file, shared by all builds of this checkout. Like the
# flags of C: no contraction, no subnormals flushed.
FATBIN  := build/fatbin/$(CUDA_ARCH)
FATBINS := $(KERNELS:kernels/%.cu=$(FATBIN)/%.fatbin)
NVFLAGS  = $(CUDA_GENCODE) -std=c++17 -O3 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true -Icsrc -I.

$(FATBIN)/%.fatbin: kernels/%.cu
	$(call say,NVCC,$< $(CUDA_ARCH))mkdir -p $(@D) && $(NVCC) -fatbin $(NVFLAGS) -MD -MF $(@:.fatbin=.d) -MT $@ -o $@ $<

$(OBJ)/cuda/blobs.o: csrc/cuda/blobs.S $(FATBINS) $(wildcard kernels/*.h) csrc/core/random.h csrc/core/elementary.h csrc/core/moments.h
	$(call say,AS,$<)mkdir -p $(@D) && $(CC) -c -I. -I$(FATBIN) -o $@ $<

include config/emulator.mk

# What the specs need of a host program (spec/host/host.c). Not installed.
HOST := $(BUILD)/$(LUA_NAME)/host.so
$(HOST): EXTRA = -isystem $(LUA_INCDIR)
$(HOST): spec/host/host.c
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LIBFLAG) $(CFLAGS) $(LODE_CFLAGS) $(MARCH) $(EXTRA) $(LODE_LDFLAGS) -o $@ $< -lpthread

# The command with this Lua in its first line; LuaRocks wraps what it finds.
$(SCRIPT): bin/lode
	@mkdir -p $(@D) && sed '1s|^#!.*|#!$(LUA_SHEBANG)|' $< > $@ && chmod 755 $@

# Files that change only when their text does: what depends on them is built
# again when flags or headers' place have changed.
keep = @mkdir -p $(@D) && printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' > $@
$(OBJ)/flags: FORCE
	$(call keep,$(CC) $(CPPFLAGS) $(CFLAGS) $(LODE_CPPFLAGS) $(LODE_CFLAGS) $(BASE_MARCH) $(ISA_LEVEL) $(LAPACK_CFLAGS) $(CUDA_CFLAGS))
$(BUILD)/$(LUA_NAME)/flags: FORCE
	$(call keep,$(LUA_INCDIR))

# Beside each file that holds the build id lies the id it was made with; with
# another one it is made again. Dates would not do: a make that began before the
# sources changed may end after one that began later.
KEEP_ID = printf '%s\n' '$(BUILD_ID)' > $@.id
BUILD_ID_O := $(call lua_object,$(BUILD_ID_USED))
old_id = $(filter-out $(foreach file,$(1),$(if $(filter $(BUILD_ID),$(shell cat $(file).id 2>/dev/null)),$(file))),$(1))
$(call old_id,$(BUILD_ID_O) $(MODULES)): FORCE
$(BUILD_ID_O): private LODE_CPPFLAGS += -DLODE_BUILD='"$(BUILD_ID)"'
$(BUILD_ID_O): private COMPILED = && $(KEEP_ID)

ifneq ($(BUILDING),)
-include $(patsubst %.o,%.d,$(SHARED_O) $(BINDING_O) $(LAPACK_O) $(CUDA_O) $(NVRTC_O) $(CUBLAS_O)) $(FATBINS:.fatbin=.d)
endif

# ---- using ------------------------------------------------------------------

# deps may install headers that the build looks for: so the build is a make of
# its own, started after it. It takes all processors unless -j says otherwise.
AGAIN = +@$(MAKE) --no-print-directory
BUILD_AGAIN = $(AGAIN) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2)) all

demo: deps-demo
	$(BUILD_AGAIN)
	$(AGAIN) run-demo

run-demo:
	@$(RUN) examples/cost.lua
	@echo
	@$(RUN) examples/cost.lua --samples=100000
	@echo
	@$(RUN) examples/solve.lua

check: deps-check
	$(BUILD_AGAIN)
	$(AGAIN) run-check

check-long:
	$(AGAIN) check LODE_LONG=1

run-check: $(HOST) $(if $(EMULATE),emulator)
	@LODE_LONG=$(LODE_LONG) LODE_STRESS=$(STRESS) sh scripts/check '$(RUN)' $(SPEC)

# The peers come from `pip install -r bench/requirements.txt`; BENCH=--quick takes a minute.
bench: deps-demo
	$(BUILD_AGAIN)
	@eval "$$($(MAKE) -s env)" && $(or $(PYTHON),python3) bench/versus_cpu.py --lua '$(LUA)' $(BENCH)

deps:
	@sh scripts/deps all '$(LUA)'

deps-demo deps-check:
	@sh scripts/deps $(@:deps-%=%) '$(LUA)'

env:
	@echo "export LUA_PATH='$(RUN_LUA_PATH)'"
	@echo "export LUA_CPATH='$(RUN_LUA_CPATH)'"
	@echo "export PATH='$(ROOT)/$(BUILD)/$(LUA_NAME)/bin':\"\$$PATH\""
	@$(if $(EMULATE),printf 'export %s\n' $(EMULATOR_ENV))

# ---- installing -------------------------------------------------------------

PREFIX ?= /usr/local
ifneq ($(filter install rock,$(GOALS)),)
LUA_VERSION ?= $(shell '$(LUA)' -e 'print((_VERSION:match("%d+%.%d+")))')
endif
BINDIR ?= $(PREFIX)/bin
LUADIR ?= $(PREFIX)/share/lua/$(LUA_VERSION)
LIBDIR ?= $(PREFIX)/lib/lua/$(LUA_VERSION)

install: build
	@install -d '$(DESTDIR)$(LIBDIR)/lode' '$(DESTDIR)$(BINDIR)'
	@install -m 755 $(MODULES) '$(DESTDIR)$(LIBDIR)/lode'
	@install -m 755 $(SCRIPT) '$(DESTDIR)$(BINDIR)'
	@cd lua && find . -type f -name '*.lua' | while read -r f; do install -D -m 644 "$$f" '$(DESTDIR)$(LUADIR)'/"$$f"; done
	@echo "installed lode for $(LUA_NAME): $(DESTDIR)$(LIBDIR)/lode $(DESTDIR)$(LUADIR)/lode $(DESTDIR)$(BINDIR)/lode"

clean:
	rm -rf build

help:
	@cat config/help.txt
