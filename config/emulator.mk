# The emulator (spec/emulator): NVIDIA's driver and libraries as the specs need them
# on a machine without a GPU. Device memory is the host's, kernels are compiled by
# the C++ compiler and run one thread a block; NVRTC itself still compiles every
# program, for the oldest and the newest architecture that it knows.
#
#   make check EMULATE=1                           the specs, with the emulator's libraries before the real ones
#   make emulator; eval "$(make -s env EMULATE=1)"  scripts of one's own

EMULATOR := $(BUILD)/emulator
soname    = $(notdir $(firstword $(wildcard $(CUDA_LIB)/lib$(1).so.*) lib$(1).so))
EMULATED := $(EMULATOR)/libcuda.so.1 $(EMULATOR)/$(call soname,nvrtc) $(EMULATOR)/$(call soname,cublas) $(EMULATOR)/$(call soname,cusolver)

ifdef EMULATE
ifneq ($(BUILDING),)
ifeq ($(CUDA_FOUND),)
$(error EMULATE=1 needs the CUDA device: $(CUDA_WHY))
endif
endif
EMULATOR_ENV = "LD_LIBRARY_PATH=$(ROOT)/$(EMULATOR):$(LD_LIBRARY_PATH)" LODE_EMULATED=1 "XDG_CACHE_HOME=$(ROOT)/$(EMULATOR)/cache"
endif

ifneq ($(CUDA_FOUND),)
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
# No contraction, as in flags.mk; device code reads what nvcc reads.
SHIM_CXX   = $(CXX) -x c++ -std=c++17 -fPIC -fvisibility=hidden -ffp-contract=off -include $(ROOT)/spec/emulator/shim.h $(SAN_FLAGS)
EMULATOR_C = $(CC) -shared -std=gnu11 -O1 -g -fPIC -fvisibility=hidden -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(SAN_FLAGS) \
  -isystem $(CUDA_HOME)/include -Icsrc -I. -Wl,-soname,$(@F)

emulator: $(EMULATED)

$(EMULATOR)/kernel-%.o: kernels/%.cu spec/emulator/shim.h $(wildcard kernels/*.h csrc/core/*.h csrc/core/*.def)
	$(call say,CXX,$<)mkdir -p $(@D) && $(SHIM_CXX) -O1 -g -Icsrc -I. -c -o $@ $<

$(EMULATOR)/libcuda.so.1: spec/emulator/driver.c $(KERNELS:kernels/%.cu=$(EMULATOR)/kernel-%.o)
	$(call say,LD,$@)mkdir -p $(@D) && $(EMULATOR_C) -o $@ -x c $< -x none $(filter %.o,$^) -lpthread -ldl -lm -lstdc++

$(EMULATOR)/$(call soname,nvrtc): spec/emulator/nvrtc.c spec/emulator/shim.h
	$(call say,LD,$@)mkdir -p $(@D) && $(EMULATOR_C) -DREAL_NVRTC='"$(CUDA_LIB)/$(call soname,nvrtc)"' -DSHIM_CXX='"$(SHIM_CXX) -O1"' -o $@ $< -lpthread -ldl

$(EMULATOR)/$(call soname,cublas): spec/emulator/blas.c spec/emulator/worked.h
	$(call say,LD,$@)mkdir -p $(@D) && $(EMULATOR_C) $(LAPACK_CFLAGS) -o $@ $< $(LAPACK_DIRS) $(LAPACK_LIBS) -lm

$(EMULATOR)/$(call soname,cusolver): spec/emulator/solver.c spec/emulator/worked.h
	$(call say,LD,$@)mkdir -p $(@D) && $(EMULATOR_C) $(LAPACK_CFLAGS) -o $@ $< $(LAPACK_DIRS) $(LAPACK_LIBS) -lm
endif
