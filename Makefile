# cellbatch: build, tests and checks. `make help` lists the targets.
#
#   make [BUILD=release|debug|asan|ubsan|tsan|cov] [CC=gcc|clang] [ARCH=x86_64|aarch64] [CUDA=0|1]
#        [V=1] [target]
#
# Files and suites stand in sources.mk. Nothing here looks at the machine: what a build needs is an
# input, and packages are installed only by `deps`, which test, demo and lint call. pkg-config runs
# only inside recipes, so reading this file needs nothing but make.

BUILD ?= release
ARCH  ?= x86_64
CUDA  ?= 0
V     ?= 0
SUITE ?=

ifeq ($(origin CC),default)
CC := gcc
endif
IS_CLANG := $(findstring clang,$(notdir $(firstword $(CC))))

include sources.mk

# CROSS: a folder with the target's libraries (scripts/cross-root.sh); then nothing else is built.
ifdef CROSS
CELLS_SRCS     := $(filter-out cells/import/%,$(CELLS_SRCS))
WORKER_SRCS    := worker/team.c
TEST_UTIL_SRCS := $(EMULATED_UTIL_SRCS)
TEST_SUITES    := $(EMULATED_SUITES)
CONFIG_SRCS    :=
SCHEDULER_SRCS :=
SERVER_SRCS    :=
LOADGEN_SRCS   :=
BENCH_SRCS     :=
PROTO_SRCS     :=
FUZZ_TARGETS   :=
endif

# ---- Third-party libraries (pkg-config names) -----------------------------------------------

SERVER_PACKAGES  = libuv grpc gpr libprotobuf-c libmicrohttpd gnutls jansson yaml-0.1 openblas libxxhash hwloc
LOADGEN_PACKAGES = libnghttp2 gnutls libprotobuf-c libxxhash
BENCH_PACKAGES   = libuv libprotobuf-c jansson yaml-0.1 openblas libxxhash hwloc
TEST_PACKAGES    = $(SERVER_PACKAGES) libnghttp2 check

# Each asks pkg-config at its first use in a recipe and remembers the answer.
PKG_CFLAGS   = $(eval PKG_CFLAGS := $$(patsubst -I%,-isystem %,$$(shell pkg-config --cflags $(TEST_PACKAGES))))$(PKG_CFLAGS)
SERVER_LIBS  = $(eval SERVER_LIBS := $$(shell pkg-config --libs $(SERVER_PACKAGES)))$(SERVER_LIBS)
LOADGEN_LIBS = $(eval LOADGEN_LIBS := $$(shell pkg-config --libs $(LOADGEN_PACKAGES)))$(LOADGEN_LIBS)
BENCH_LIBS   = $(eval BENCH_LIBS := $$(shell pkg-config --libs $(BENCH_PACKAGES)))$(BENCH_LIBS)
TEST_LIBS    = $(eval TEST_LIBS := $$(shell pkg-config --libs $(TEST_PACKAGES)))$(TEST_LIBS)

# Linked statically, so that the emulator needs none of it.
ifdef CROSS
CROSS_DIRS = $(CROSS)/usr/lib/$(ARCH)-linux-gnu
PKG_CFLAGS = -isystem $(CROSS)/usr/include -isystem $(CROSS)/usr/include/$(ARCH)-linux-gnu/openblas-pthread
TEST_LIBS  = -static -L$(CROSS_DIRS) -L$(CROSS_DIRS)/openblas-pthread \
  -lcheck -lsubunit -ljansson -lxxhash -lopenblas
endif

# ---- Flags ----------------------------------------------------------------------------------

OUT := build/$(BUILD)$(if $(IS_CLANG),-clang)$(if $(filter-out x86_64,$(ARCH)),-$(ARCH))

STD      := -std=c11 -D_GNU_SOURCE -I. -isystem $(OUT)/proto
BOTH_WARNINGS := -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
  -Wdouble-promotion -Wcast-qual -Wcast-align -Wpointer-arith -Wwrite-strings -Wundef -Wvla \
  -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wredundant-decls \
  -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
GCC_WARNINGS := -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Walloc-zero -Wstrict-aliasing=2
CLANG_WARNINGS := -Wcomma -Wno-string-conversion # base_assert(!"reason") is meant
WARNINGS := $(BOTH_WARNINGS) $(if $(IS_CLANG),$(CLANG_WARNINGS),$(GCC_WARNINGS))

# In every build: no contraction, so that results keep their bits; FMA only where it is written.
COMMON := -g -fno-common -fno-math-errno -ffp-contract=off -pthread
DEBUG  := -DCELLBATCH_DEBUG -fno-omit-frame-pointer
LINK   := -Wl,--as-needed -Wl,--build-id

ifeq ($(BUILD),release)
MODE := -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=3 -fstack-clash-protection
LINK += -Wl,-z,relro,-z,now
else ifeq ($(BUILD),debug)
MODE := -O0 $(DEBUG)
else ifeq ($(BUILD),asan)
SANITIZE := -fsanitize=address,undefined,leak -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),ubsan)
SANITIZE := -fsanitize=undefined -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),tsan)
SANITIZE := -fsanitize=thread
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),cov)
SANITIZE := --coverage
MODE := -O0
else ifeq ($(BUILD),fuzz)
SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else
$(error BUILD=$(BUILD): must be release, debug, asan, ubsan, tsan, cov or fuzz)
endif

CFLAGS_ALL := $(STD) $(COMMON) $(MODE) $(SANITIZE)
LDFLAGS    := $(COMMON) $(MODE) $(SANITIZE) $(LINK)

# Kernels of one instruction set stand in files of their own; everything else is baseline.
# PREFETCHW is a hint: older processors with AVX2 that do not know it pass over it.
isa_flags = $(if $(filter %__avx2.c,$(1)),-mavx2 -mfma -mprfchw) \
  $(if $(filter %__avx512.c %__avx512bf16.c %__avx512vnni.c %__avx512amx.c,$(1)),-mavx512f -mavx512bw \
    -mavx512dq -mavx512vl -mfma -mprfchw -mprefer-vector-width=512) \
  $(if $(filter cells/cpu/%__avx512bf16.c,$(1)),-mavx512bf16) \
  $(if $(filter cells/cpu/%__avx512vnni.c cells/cpu/%__avx512amx.c,$(1)),-mavx512vnni) \
  $(if $(filter cells/cpu/%__avx512amx.c,$(1)),-mamx-tile -mamx-int8) \
  $(if $(filter cells/cpu/%__neondot.c,$(1)),-march=armv8.2-a+dotprod)
# For the checks, which read what is of another architecture too.
lint_flags = $(call isa_flags,$(1)) \
  $(if $(findstring __neon,$(1)),--target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include) \
  $(if $(filter tests/plugins/% examples/%,$(1)),-Iinclude)
comma := ,
# Skylake's successors cannot keep decoded what jumps across 32 bytes (Intel, "Mitigations for Jump
# Conditional Code Erratum"): an inner loop would lose a tenth by where it happens to lie.
# A tile's sums are a local array: watched by ASan it stays out of registers, a hundred times slower;
# UBSan checks its bounds.
# To follow where each variable of an optimised tile is doubles gcc's time: lines and functions are enough.
# The code is the same, byte for byte.
# Kernels are watched where suites run them (asan); of clang fuzzing asks ten minutes for each file.
# On AArch64 gcc reorders before it gives out registers, and then has too few for the largest tiles.
asm_flags = $(if $(filter cells/cpu/%__avx2.c bench/%__avx2.c %__avx512.c %__avx512bf16.c %__avx512vnni.c %__avx512amx.c,$(1)),\
  $(if $(IS_CLANG),,-Wa$(comma))-mbranches-within-32B-boundaries \
  $(if $(filter asan,$(BUILD)),$(if $(IS_CLANG),,--param asan-stack=0))) \
  $(if $(IS_CLANG),,$(if $(filter cells/cpu/%__neon.c cells/cpu/%__neondot.c,$(1)),-fno-schedule-insns)) \
  $(if $(filter fuzz,$(BUILD)),$(if $(findstring __,$(filter cells/cpu/%,$(1))),-fno-sanitize=all)) \
  $(if $(filter-out debug cov,$(BUILD)),$(if $(findstring __,$(filter cells/cpu/%,$(1))),-g1))

# ---- Quiet output: $(call say,CC,file) ------------------------------------------------------

ifeq ($(V),1)
Q   :=
say := @:
else
Q   := @
say = @printf '  %-7s %s\n' $(1) $(2)
endif

# ---- Rules ----------------------------------------------------------------------------------

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

all: programs ## build the programs (default)

objects = $(patsubst %.c,$(OUT)/%.o,$(1))

PROTO_CODE    := $(PROTO_SRCS:%.proto=$(OUT)/proto/%.pb-c.c)
PROTO_HEADERS := $(PROTO_CODE:.c=.h)
PROTO_OBJECTS := $(PROTO_CODE:.c=.o)
DESCRIPTORS   := $(OUT)/proto/proto/descriptors

# A static library a folder, in layer order: users before what they use.
CORE_LIBS    := $(if $(SERVER_SRCS),$(OUT)/libserver.a) \
  $(if $(WORKER_SRCS),$(OUT)/libworker.a) \
  $(if $(SCHEDULER_SRCS),$(OUT)/libscheduler.a) \
  $(if $(CELLS_SRCS),$(OUT)/libcells.a) \
  $(if $(CONFIG_SRCS),$(OUT)/libconfig.a) \
  $(OUT)/libbase.a $(if $(PROTO_SRCS),$(OUT)/libproto.a)
LIBLOADGEN   := $(if $(LOADGEN_SRCS),$(OUT)/libloadgen.a)
LIBBENCH     := $(if $(BENCH_SRCS),$(OUT)/libbench.a)

PROGRAMS := $(if $(SERVER_MAIN),$(OUT)/cellbatchd) \
  $(if $(LOADGEN_MAIN),$(OUT)/cellbatch-load) \
  $(if $(BENCH_MAIN),$(OUT)/cellbatch-bench)

# ---- libcellbatch_cuda.so: `make CUDA=1`; needs nvcc and cuBLASLt, no GPU -------------------------

CUDA_HOME ?= /usr/local/cuda
CUDA_ARCH ?= 80 90
NVCC      := $(CUDA_HOME)/bin/nvcc
# PTX of the newest too, for cards that come later. No contraction, as everywhere: bits are defined.
NVCC_FLAGS = -std=c++17 -O3 -I. -fmad=false -lineinfo -Werror all-warnings \
  -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
  $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
  -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

CUDA_LIBRARY := $(OUT)/libcellbatch_cuda.so
CUDA_OBJECTS := $(CUDA_LIBRARY_SRCS:%.c=$(OUT)/cuda/%.o) $(CUDA_KERNELS:%.cu=$(OUT)/cuda/%.o)

# Objects of its own: position-independent, and with nothing to be seen from outside.
$(OUT)/cuda/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include \
	  -MMD -MP -c $< -o $@

$(OUT)/cuda/%.o: %.cu $(OUT)/cuda/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(OUT)/cuda/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$(NVCC) $(NVCC_FLAGS)" | cmp -s - $@ || printf '%s\n' "$(NVCC) $(NVCC_FLAGS)" > $@

# The runtime inside, which finds the driver by itself and says so where there is none.
$(CUDA_LIBRARY): $(CUDA_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,--exclude-libs,ALL $(if $(SANITIZE),,-Wl,-z$(comma)defs) $^ -L$(CUDA_HOME)/lib64 \
	  -lcublasLt -lcudart_static -ldl -lrt -lm -lstdc++ -o $@

-include $(CUDA_OBJECTS:.o=.d)

cuda-library: $(CUDA_LIBRARY) ## the CUDA device's library; CUDA_ARCH="80 90"

ifeq ($(CUDA),1)
programs: $(CUDA_LIBRARY)
endif

programs: $(PROGRAMS) $(CORE_LIBS) $(OUT)/tests/tools/make_model

$(OUT)/libbase.a:      $(call objects,$(BASE_SRCS))
$(OUT)/libconfig.a:    $(call objects,$(CONFIG_SRCS))
$(OUT)/libcells.a:     $(call objects,$(CELLS_SRCS))
$(OUT)/libscheduler.a: $(call objects,$(SCHEDULER_SRCS))
$(OUT)/libworker.a:    $(call objects,$(WORKER_SRCS))
$(OUT)/libserver.a:    $(call objects,$(SERVER_SRCS))
$(OUT)/libloadgen.a:   $(call objects,$(LOADGEN_SRCS))
$(OUT)/libbench.a:     $(call objects,$(BENCH_SRCS))
$(OUT)/libproto.a:     $(PROTO_OBJECTS) $(if $(PROTO_SRCS),$(DESCRIPTORS).o)
$(OUT)/libtestutil.a:  $(call objects,$(TEST_UTIL_SRCS))

# Made anew when the list of its sources has changed.
$(OUT)/%.a: Makefile sources.mk
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(OUT)/cellbatchd: $(call objects,$(SERVER_MAIN)) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(SERVER_LIBS) -ldl -lm -o $@

$(OUT)/cellbatch-load: $(call objects,$(LOADGEN_MAIN)) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LOADGEN_LIBS) -lm -o $@

$(OUT)/cellbatch-bench: $(call objects,$(BENCH_MAIN)) $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(BENCH_LIBS) -ldl -lm -o $@

$(OUT)/tests/tools/make_model: $(call objects,$(MAKE_MODEL_SRCS)) $(OUT)/libbase.a $(OUT)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LOADGEN_LIBS) -lm -o $@

$(OUT)/%.o: %.c $(OUT)/flags | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) $(call isa_flags,$<) $(call asm_flags,$<) \
	  $(FILE_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@

$(OUT)/proto/%.pb-c.c $(OUT)/proto/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$<)
	$(Q)protoc-c --proto_path=. --c_out=$(OUT)/proto $<

$(PROTO_OBJECTS) $(DESCRIPTORS).o: %.o: %.c $(OUT)/flags | $(PROTO_HEADERS)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -w $(PKG_CFLAGS) -c $< -o $@

$(OUT)/proto/proto/%_v1alpha.proto: proto/%.proto
	@mkdir -p $(@D)
	$(Q)sed 's/^package \(.*\)\.v1;/package \1.v1alpha;/' $< > $@

# A FileDescriptorSet, as protoc writes it.
$(DESCRIPTORS).set: Makefile $(filter-out %_v1alpha.proto,$(DESCRIBED_PROTOS)) $(OUT)/proto/proto/reflection_v1alpha.proto
	$(call say,PROTOC,$@)
	$(Q)protoc-c --proto_path=$(OUT)/proto --proto_path=. --include_imports --descriptor_set_out=$@ $(DESCRIBED_PROTOS)

# The same as an array of C.
$(DESCRIPTORS).c: $(DESCRIPTORS).set
	$(Q){ printf '#include <stddef.h>\nconst unsigned char proto_descriptors[] = {\n'; \
	  od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; \
	  printf '};\nconst size_t proto_descriptors_bytes = sizeof proto_descriptors;\n'; } > $@

# Plug-ins as users build them (docs/plugins.md), for the tests; wrong.c is one a variant.
TEST_PLUGINS := $(OUT)/tests/plugins/steered.so $(OUT)/examples/unfold_grid/unfold.so \
  $(foreach v,1 2 3 4 5 6 7 8,$(OUT)/tests/plugins/wrong$(v).so)
plugin_command = $(CC) $(CFLAGS_ALL) $(WARNINGS) -Iinclude -fPIC -shared

$(OUT)/%.so: %.c include/cellbatch/unfold.h tests/plugins/steered.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,SO,$<)
	$(Q)$(plugin_command) $< -o $@

$(OUT)/tests/plugins/wrong%.so: tests/plugins/wrong.c include/cellbatch/unfold.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(plugin_command) -DVARIANT=$* $< -o $@

$(OUT)/tests/server/test_plugin: | $(TEST_PLUGINS)
$(OUT)/tests/server/test_plugin.o: FILE_CFLAGS = -DCELLBATCH_OUT='"$(CURDIR)/$(OUT)"'

# Where the tests find their golden files.
$(OUT)/tests/util.o: FILE_CFLAGS = -DCELLBATCH_SOURCE_DIR='"$(CURDIR)"'

# Speed does not matter to them, but the time that ten bodies take to compile: half a minute each with
# sanitizers, which watch the right one. Contraction is a matter of -O2.
MUTANT_CFLAGS := -O1 -g0 -fno-sanitize=all -DCELL_SUMS_ALONE -Wno-maybe-uninitialized
$(patsubst %.c,$(OUT)/%.o,$(MUTANT_SRCS)): FILE_CFLAGS = $(MUTANT_CFLAGS)
$(OUT)/tests/cells/mutants/contraction__avx2.o: FILE_CFLAGS = $(MUTANT_CFLAGS) -O2 -ffp-contract=fast

# Changes only when the compiler or its flags change, so that objects of two kinds never mix.
kernel_kinds := avx2 avx512 avx512bf16 avx512vnni avx512amx neon neondot
all_flags = $(CC) $(CFLAGS_ALL) $(WARNINGS) \
  $(foreach k,$(kernel_kinds),$(call isa_flags,cells/cpu/x__$(k).c) $(call asm_flags,cells/cpu/x__$(k).c))
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$(subst ",,$(all_flags))" | cmp -s - $@ || printf '%s\n' "$(subst ",,$(all_flags))" > $@

-include $(patsubst %.o,%.d,$(call objects,$(BASE_SRCS) $(CONFIG_SRCS) $(CELLS_SRCS) \
  $(SCHEDULER_SRCS) $(WORKER_SRCS) $(SERVER_SRCS) $(SERVER_MAIN) $(LOADGEN_SRCS) $(LOADGEN_MAIN) \
  $(BENCH_SRCS) $(BENCH_MAIN) $(TEST_UTIL_SRCS) $(TEST_SUITES) $(FUZZ_TARGETS) \
  tests/fuzz/driver.c \
  $(FAKE_CORE_SRCS) $(FAKE_CORE_TOOLS) $(LOADGEN_TOOLS) $(MAKE_MODEL_SRCS) $(CONFORMANCE_SRCS) $(MUTANT_SRCS) \
  $(LANE_MODEL_SRCS) $(TEST_DAEMON_SRCS) $(LANE_WRONG_SRCS) \
  tests/cells/mutants/stale_window.c tests/cells/mutants/hasty_ring.c))

# ---- Tests: `make test SUITE=test_ring` runs one --------------------------------------------

chosen = $(if $(SUITE),$(filter $(foreach s,$(SUITE),%/$(s).c %/$(s).sh %/$(s).py),$(1)),$(1))

CHOSEN_SUITES  := $(call chosen,$(if $(filter tsan,$(BUILD)),\
  $(filter-out $(TSAN_EXCLUDED),$(TEST_SUITES)),$(TEST_SUITES)))
CHOSEN_SCRIPTS := $(call chosen,$(TEST_SCRIPTS))
CHOSEN_FUZZ    := $(call chosen,$(FUZZ_TARGETS))
# cellbatchd with the tests' device in its table of backends, by a file of ours in the library's place.
TEST_DAEMON      := $(OUT)/cellbatchd-test
TEST_DAEMON_SRCS := tests/daemon/backends.c
FUZZ_PROGRAMS  := $(CHOSEN_FUZZ:%.c=$(OUT)/%)
TEST_PROGRAMS  := $(CHOSEN_SUITES:%.c=$(OUT)/%) $(FUZZ_PROGRAMS)
# What scripts run, whichever suites are chosen.
REFERENCE_PROGRAMS := $(REFERENCE_SUITES:%.c=$(OUT)/%)
CUDA_HOST_PROGRAMS := $(CUDA_HOST_SUITES:%.c=$(OUT)/%)
LANE_WRONG_PROGRAMS := $(LANE_WRONG_SUITES:tests/cuda/%.c=$(OUT)/tests/cuda/lane_wrong/%)
AVX512_PROGRAMS := $(patsubst %.c,$(OUT)/avx512/%,$(call chosen,$(AVX512_SUITES)))
AVX512_OBJECTS  := $(AVX512_SRCS:%.c=$(OUT)/avx512/%.o)
AMX_PROGRAMS    := $(patsubst %.c,$(OUT)/amx/%,$(call chosen,$(AMX_SUITES)))
AMX_OBJECTS     := $(AMX_SRCS:%.c=$(OUT)/avx512/%.o)
CONFORMANCE    := $(OUT)/tests/conformance/conformance
TEST_TOOLS     := $(patsubst %.c,$(OUT)/%,$(FAKE_CORE_TOOLS) $(LOADGEN_TOOLS)) $(CONFORMANCE)

# Objects before archives, so that what a suite brings stands in for what the libraries have.
$(sort $(TEST_PROGRAMS) $(REFERENCE_PROGRAMS)) $(TEST_TOOLS): %: %.o $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(FUZZ_MAIN) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(LANE_WRONG_PROGRAMS): $(OUT)/tests/cuda/lane_wrong/%: $(OUT)/tests/cuda/%.o \
  $(call objects,$(LANE_WRONG_SRCS)) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

# -O1: registers for vectors that are two cannot suffice, and -O2 tries for minutes.
avx512_flags = $(call isa_flags,x__avx2.c) -O1 -g1 -Wno-pedantic -Wno-psabi -include tests/cells/emulated_avx512__avx2.h \
  $(if $(filter %avx512bf16.c,$(1)),-DEMULATED_BF16) $(if $(filter %avx512vnni.c %avx512amx.c,$(1)),-DEMULATED_VNNI)

$(AVX512_OBJECTS): $(OUT)/avx512/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) $(if $(findstring __,$<),$(call avx512_flags,$<),-D'__builtin_cpu_supports(x)=1') \
	  -MMD -MP -c $< -o $@

-include $(AVX512_OBJECTS:.o=.d)

$(AVX512_PROGRAMS): $(OUT)/avx512/%: $(OUT)/%.o $(AVX512_OBJECTS) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(AMX_PROGRAMS): $(OUT)/amx/%: $(OUT)/%.o $(AMX_OBJECTS) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(TEST_DAEMON): $(call objects,$(SERVER_MAIN) $(TEST_DAEMON_SRCS)) $(OUT)/libtestutil.a $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

# Where scripts look for programs, with that daemon as the daemon.
$(OUT)/reference/stamp: $(TEST_DAEMON) $(PROGRAMS)
	@mkdir -p $(@D)
	$(Q)for program in $(notdir $(PROGRAMS)) tests; do ln -sfn ../$$program $(@D)/$$program; done
	$(Q)ln -sfn ../cellbatchd-test $(@D)/cellbatchd
	@touch $@

ifeq ($(BUILD),fuzz)
$(FUZZ_PROGRAMS): FUZZ_MAIN := -fsanitize=fuzzer
else
$(FUZZ_PROGRAMS): $(call objects,tests/fuzz/driver.c)
endif

$(patsubst %.c,$(OUT)/%,$(FAKE_CORE_SUITES) $(FAKE_CORE_TOOLS)): $(call objects,$(FAKE_CORE_SRCS))

$(CONFORMANCE): $(OUT)/tests/conformance/cases.o

$(patsubst %.c,$(OUT)/%,$(LANE_SUITES)): $(call objects,$(LANE_MODEL_SRCS))

$(patsubst %.c,$(OUT)/%,$(FIBER_SUITES)): $(call objects,$(FIBER_SRCS))
-include $(FIBER_SRCS:%.c=$(OUT)/%.d)

$(OUT)/tests/cells/test_mutants: $(call objects,$(MUTANT_SRCS))
$(OUT)/tests/cells/test_stale_window: $(OUT)/tests/cells/mutants/stale_window.o
$(OUT)/tests/cells/test_hasty_ring: $(OUT)/tests/cells/mutants/hasty_ring.o

# For a recipe: all cores, unless make was told how many.
all_cores = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$$(nproc))

# $(call run_tests,PATHS): with those first that may run beside each other; how many of them at once.
TEST_JOBS ?= $$(nproc)
beside = $(filter $(1),$(BESIDE_TESTS:%.c=$(OUT)/%) \
  $(foreach folder,$(OUT)/avx512 $(OUT)/amx,$(patsubst %.c,$(folder)/%,$(filter %.c,$(BESIDE_TESTS)))))
run_tests = BUILD=$(BUILD) OUT=$(OUT) TEST_JOBS="$(TEST_JOBS)" TEST_BESIDE="$(call beside,$(1))" \
  bash tests/run.sh $(call beside,$(1)) $(filter-out $(call beside,$(1)),$(1))

test: deps ## build and run all suites; SUITE=test_ring for one
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-tests

FUZZ_SECONDS ?= 60
fuzz: deps ## fuzz each target for FUZZ_SECONDS=60 with clang; SUITE=fuzz_model for one
	+$(Q)$(MAKE) --no-print-directory BUILD=fuzz CC=clang run-fuzz

# What is found stays in build/fuzz-clang/found/; the corpora in the tree are not changed.
run-fuzz: $(FUZZ_PROGRAMS)
	$(Q)OUT=$(OUT) bash tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_PROGRAMS)

FUZZ_ROUNDS ?= 10
fuzz-models: programs deps-peers ## random ONNX models beside ONNX Runtime: FUZZ_ROUNDS=10 of 60 models
	$(Q)build/peers/bin/python tests/fuzz/random_models.py --daemon $(OUT)/cellbatchd \
	  --rounds $(FUZZ_ROUNDS) --seed $(or $(CELLBATCH_SEED),1)

demo: deps ## build, serve models/, ask, draw latency against load
	+$(Q)$(MAKE) --no-print-directory $(all_cores) programs
	$(Q)OUT=$(OUT) bash scripts/demo.sh

check-long: ## all that lint checks, in depth, tests under every build and both compilers, long ones too, and gcc -fanalyzer
	$(Q)rm -rf build/lint
	+$(Q)$(MAKE) --no-print-directory TIDY_NODES=225000 lint
	+$(Q)$(MAKE) --no-print-directory analyze
	+$(Q)for cc in gcc clang; do for build in release debug asan ubsan tsan; do \
	  echo "== $$cc, $$build"; \
	  long=; [ $$build != release ] || long='CELLBATCH_LONG=1 TEST_LIMIT_S=7200'; \
	  env $$long $(MAKE) --no-print-directory CC=$$cc BUILD=$$build test || exit 1; \
	done; done

# A process for each case would have the emulator translate everything anew.
test-neon: deps-neon ## the AArch64 kernels, cross-compiled, in an emulator
	+$(Q)CELLBATCH_QUICK=1 CK_FORK=no TEST_EMULATOR=qemu-aarch64 $(MAKE) --no-print-directory \
	  $(all_cores) ARCH=aarch64 CROSS=build/arm64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar run-emulated

test-avx512: deps ## the AVX-512 kernels on a machine with AVX2 alone, their instructions emulated
	+$(Q)CELLBATCH_QUICK=1 $(MAKE) --no-print-directory $(all_cores) run-avx512

run-avx512: $(AVX512_PROGRAMS)
	$(Q)$(call run_tests,$(AVX512_PROGRAMS))

test-amx: deps ## the kernels with AMX on a machine with the rest of AVX-512, its instructions emulated
	+$(Q)CELLBATCH_QUICK=1 $(MAKE) --no-print-directory $(all_cores) run-amx

run-amx: $(AMX_PROGRAMS)
	$(Q)$(call run_tests,$(AMX_PROGRAMS))

run-emulated: $(TEST_PROGRAMS)
	$(Q)$(call run_tests,$(TEST_PROGRAMS))

run-tests: programs $(TEST_PROGRAMS) $(OUT)/reference/stamp \
  $(if $(filter %/test_reference.sh,$(CHOSEN_SCRIPTS)),$(REFERENCE_PROGRAMS)) \
  $(if $(filter %/cuda/test_server.sh,$(CHOSEN_SCRIPTS)),$(CUDA_HOST_PROGRAMS)) \
  $(if $(filter %/cuda/test_lane_wrong.sh,$(CHOSEN_SCRIPTS)),$(LANE_WRONG_PROGRAMS))
	$(Q)REFERENCE_PROGRAMS="$(REFERENCE_PROGRAMS)" CUDA_HOST_PROGRAMS="$(CUDA_HOST_PROGRAMS)" \
	  $(call run_tests,$(TEST_PROGRAMS) $(CHOSEN_SCRIPTS))

test-reference: deps ## the server's suites and the documents on 1 and on 2 of the tests' devices, and without a card on the CUDA device
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-reference

run-reference: programs $(REFERENCE_PROGRAMS) $(CUDA_HOST_PROGRAMS) $(OUT)/reference/stamp
	$(Q)for n in 1 2; do \
	  BUILD=$(BUILD) OUT=$(OUT) REFERENCE_PROGRAMS="$(REFERENCE_PROGRAMS)" bash tests/reference.sh $$n docs || exit 1; done
	$(Q)BUILD=$(BUILD) OUT=$(OUT) REFERENCE_PROGRAMS="$(CUDA_HOST_PROGRAMS)" bash tests/reference.sh cuda-host

# ---- Packages -------------------------------------------------------------------------------

deps: ## install the Debian packages of build and tests that are missing
	$(Q)sh scripts/deps.sh build

deps-py: ## what the client tests need: build/venv, build/perf_analyzer
	$(Q)sh scripts/deps.sh clients
	+$(Q)$(MAKE) --no-print-directory build/venv/stamp build/perf_analyzer/stamp

conformance: deps ## exports, and suites of others (CELLBATCH_DATA), against the daemon
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-conformance

run-conformance: programs $(CONFORMANCE)
	$(Q)OUT=$(OUT) bash tests/conformance/run.sh

clients: programs deps-py ## real clients (tritonclient, perf_analyzer, reflection) against the daemon
	$(Q)OUT=$(OUT) bash tests/clients/run.sh

build/venv/stamp: tests/clients/requirements.txt
	$(Q)python3 -m venv build/venv
	$(Q)build/venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Apart from build/venv, where tritonclient has another version.
build/perf_analyzer/stamp: tests/clients/perf_analyzer.txt build/venv/stamp
	$(Q)rm -rf build/perf_analyzer
	$(Q)build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  --target build/perf_analyzer --requirement $<
	@touch $@

deps-neon: ## what test-neon needs: cross compiler, emulator, build/arm64
	$(Q)sh scripts/deps.sh neon
	+$(Q)$(MAKE) --no-print-directory build/arm64/stamp

# The libraries of another architecture, without telling dpkg of it.
build/arm64/stamp: scripts/cross-root.sh scripts/packages.txt
	$(Q)sh scripts/cross-root.sh arm64 build/arm64
	@touch $@

deps-peers: ## what bench-kernels and fuzz-models need: build/peers, Debian's PyTorch
	$(Q)sh scripts/deps.sh peers
	+$(Q)$(MAKE) --no-print-directory build/peers/stamp

build/peers/stamp: bench/peers/requirements.txt
	$(Q)python3 -m venv build/peers
	$(Q)build/peers/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

bench-kernels: programs deps-peers ## cells beside ONNX Runtime and PyTorch: docs/benchmarks/kernels.md
	$(Q)build/peers/bin/python bench/peers/compare.py --bench $(OUT)/cellbatch-bench \
	  --out docs/benchmarks/kernels.md $(BENCH_KERNELS)

bench-pictures: programs deps-peers ## pictures of many widths beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) $(BENCH_PICTURES)

bench-video: programs deps-peers ## videos of many lengths beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) --document video $(BENCH_VIDEO)

bench-cells: programs deps-peers ## cells of one's own beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) --document cells $(BENCH_CELLS)

bench-transducers: programs deps-peers ## a transducer, recordings and streams, beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/transducers.py --build $(OUT) $(BENCH_TRANSDUCERS)

bench-serving: programs deps-peers ## an LSTM asked by many beside ONNX Runtime, PyTorch and DyNet; LENGTHS=FILE: printed
	$(Q)build/peers/bin/python bench/peers/serving.py --bench $(OUT)/cellbatch-bench \
	  --lengths $(LENGTHS) $(BENCH_SERVING)

bench-readers: programs deps-peers ## readers beside ONNX Runtime and PyTorch: docs/benchmarks/readers.md
	$(Q)build/peers/bin/python bench/peers/readers.py --build $(OUT) \
	  --out docs/benchmarks/readers.md $(BENCH_READERS)

bench-cores: programs ## threads and teams on all cores: docs/benchmarks/cores.md
	$(Q)mkdir -p docs/benchmarks
	$(Q)OUT=$(OUT) scripts/bench-cores.sh > docs/benchmarks/cores.md

gpu-tools: ## scripts/gpu's programs for every target; needs nvcc and cuDNN, no GPU
	$(Q)scripts/gpu/floors.sh --build-only
	$(Q)scripts/gpu/peers.sh --build-only

gpu-cells: programs ## build/gpu/langid.cells, what scripts/gpu/engine.sh wants of a machine that can import models
	$(Q)mkdir -p build/gpu
	$(Q)$(OUT)/cellbatch-bench engine --model models/langid --write-cells build/gpu/langid.cells

cuda-gates: ## registers, spills and orders of the CUDA kernels; needs nvcc, no GPU
	$(Q)scripts/gpu/gates.sh

# ---- Checks without running: quiet when clean, remembered per file under build/lint ---------------

C_FOLDERS := base config cells scheduler worker server loadgen bench sim include examples tests
C_FILES   := $(sort $(wildcard $(foreach f,$(C_FOLDERS),$(foreach x,c h,\
  $(f)/*.$(x) $(f)/*/*.$(x) $(f)/*/*/*.$(x)))))
# Read by nvcc alone: their format, includes and calls are looked at, no more.
CUDA_FILES   := $(wildcard bench/gpu/*.cu bench/gpu/*.cuh cells/cuda/*.cu cells/cuda/*.cuh)
# Those that include CUDA's headers are read where the toolkit is.
ifneq ($(CUDA),1)
LINT_SKIP := cells/cuda/%_cuda.c cells/cuda/%_cuda.h cells/cuda/library.c cells/cuda/step_kernels.h tests/cuda/fake_cuda.c
endif
LINT_SOURCES := $(filter-out $(LINT_SKIP),$(filter %.c,$(C_FILES)))
LINT_HEADERS := $(filter-out $(LINT_SKIP),$(filter %.h,$(C_FILES)))
SHELL_FILES  := $(wildcard scripts/*.sh scripts/*/*.sh tests/*.sh tests/*/*.sh .ci/run)

lint: ## all static checks; installs their tools
	$(Q)sh scripts/deps.sh build lint
	+$(Q)$(MAKE) --no-print-directory -k -O $(if $(filter -j%,$(MAKEFLAGS)),,-j2) lint-all
	@echo lint clean

lint-all: layers headers format-check text shellcheck tidy cppcheck

layers: ## includes against tests/layers.txt
	$(Q)awk -f tests/layers.awk tests/layers.txt $(filter-out tests/% examples/%,$(C_FILES)) $(CUDA_FILES)

# simd__neon.h by clang alone: gcc has a compiler for each architecture.
headers: $(LINT_HEADERS:%=build/lint/%.alone) ## each header compiles alone, gcc and clang

tidy: $(LINT_SOURCES:%=build/lint/%.tidy) ## clang-tidy

format: ## clang-format on every C file, in place
	$(Q)clang-format -i $(C_FILES) $(CUDA_FILES)

format-check:
	$(Q)clang-format --dry-run -Werror $(C_FILES) $(CUDA_FILES)

text:
	$(Q)bash scripts/check-text.sh $(C_FILES) $(CUDA_FILES)

shellcheck:
	$(Q)shellcheck $(SHELL_FILES)

cppcheck:
	@mkdir -p build/lint/cppcheck
	$(Q)cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --error-exitcode=1 --cppcheck-build-dir=build/lint/cppcheck -I. -D_GNU_SOURCE \
	  $(filter-out tests/% examples/%,$(LINT_SOURCES))

# gcc's path analysis: slow, so only in check-long.
analyze: $(patsubst %,build/lint/%.analyzed,$(filter-out tests/%,$(LINT_SOURCES)))

# Each stamp brings a .d beside it that names the headers it depends on.
build/lint/%.alone: % $(OUT)/flags | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)for cc in $(if $(findstring __neon,$<),,gcc) clang; do \
	  echo '#include "$<"' | $$cc $(STD) -Werror -Wall -Wextra -Wpedantic $(call lint_flags,$(<:.h=.c)) \
	    $(PKG_CFLAGS) -fsyntax-only -MMD -MP -MT $@ -MF $@.d -x c - || exit 1; \
	done
	@touch $@

# The analyzer looks at up to TIDY_NODES states of each function that calls others, 225,000 if nothing is said: 75,000
# take a third of the time. Paths through tests are analysed within functions alone: they run under
# sanitizers (check-long).
TIDY_NODES ?= 75000
build/lint/%.tidy: % .clang-tidy tests/.clang-tidy | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)clang-tidy --quiet $< -- $(STD) $(BOTH_WARNINGS) $(CLANG_WARNINGS) $(call lint_flags,$<) $(PKG_CFLAGS) \
	  -Xclang -analyzer-config -Xclang $(if $(filter tests/%,$<),mode=shallow,max-nodes=$(TIDY_NODES)) > $@.log 2>&1 || \
	  { cat $@.log; exit 1; }
	$(Q)clang $(STD) $(call lint_flags,$<) $(PKG_CFLAGS) -MM -MP -MT $@ -MF $@.d $<
	@touch $@

build/lint/%.analyzed: % | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)gcc $(STD) -Werror -fanalyzer -O1 $(call isa_flags,$<) $(PKG_CFLAGS) -MMD -MP -MT $@ \
	  -MF $@.d -c $< -o /dev/null
	@touch $@

-include $(LINT_SOURCES:%=build/lint/%.analyzed.d)
-include $(LINT_SOURCES:%=build/lint/%.tidy.d) $(LINT_HEADERS:%=build/lint/%.alone.d)

# ---- Installation: PREFIX for the programs, DESTDIR for packages ---------------------------------

PREFIX  ?= /usr/local
DESTDIR ?=

BIN_DIR    = $(DESTDIR)$(PREFIX)/bin
INCLUDE_DIR = $(DESTDIR)$(PREFIX)/include
DOC_DIR    = $(DESTDIR)$(PREFIX)/share/doc/cellbatch
UNIT_DIR   = $(DESTDIR)$(PREFIX)/lib/systemd/system
LIB_DIR    = $(DESTDIR)$(PREFIX)/lib
CONFIG_DIR = $(DESTDIR)/etc/cellbatch
STATE_DIR  = $(DESTDIR)/var/lib/cellbatch

install: programs ## programs, header for plug-ins, documents, systemd unit; PREFIX=/usr/local DESTDIR=
	$(Q)install -d $(BIN_DIR) $(DOC_DIR)/docs $(UNIT_DIR) $(CONFIG_DIR)
	$(Q)for program in $(PROGRAMS); do install -m 755 $$program $(BIN_DIR) || exit 1; done
	$(if $(filter 1,$(CUDA)),$(Q)install -d $(LIB_DIR) && install -m 755 $(CUDA_LIBRARY) $(LIB_DIR))
	$(Q)install -m 644 LICENSE README.md $(DOC_DIR)
	$(Q)install -m 644 docs/*.md $(DOC_DIR)/docs
	$(Q)install -d $(INCLUDE_DIR)/cellbatch
	$(Q)install -m 644 include/cellbatch/*.h $(INCLUDE_DIR)/cellbatch
	$(Q)sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/cellbatch.service > $(UNIT_DIR)/cellbatch.service
	$(Q)chmod 644 $(UNIT_DIR)/cellbatch.service
	$(Q)[ -e $(CONFIG_DIR)/cellbatch.yaml ] || \
	  install -m 644 packaging/cellbatch.yaml $(CONFIG_DIR)/cellbatch.yaml

install-models: ## the demo models into /var/lib/cellbatch
	$(Q)install -d $(STATE_DIR)
	$(Q)cp -r models $(STATE_DIR)/

uninstall: ## what install put there, but not configuration and models
	$(Q)rm -f $(addprefix $(BIN_DIR)/,$(notdir $(PROGRAMS))) $(LIB_DIR)/$(notdir $(CUDA_LIBRARY)) $(UNIT_DIR)/cellbatch.service
	$(Q)rm -rf $(DOC_DIR) $(INCLUDE_DIR)/cellbatch

# ---- The rest -------------------------------------------------------------------------------

clean: ## remove build/
	$(Q)rm -rf build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

FORCE:

.PHONY: all programs cuda-library test test-avx512 test-neon fuzz run-fuzz fuzz-models demo check-long run-tests run-avx512 run-emulated conformance run-conformance deps deps-py \
  deps-neon deps-peers bench-kernels bench-pictures bench-video bench-cells bench-readers bench-serving bench-transducers bench-cores gpu-tools gpu-cells cuda-gates clients lint lint-all \
  layers headers tidy format format-check text shellcheck cppcheck analyze install install-models \
  uninstall clean help FORCE
