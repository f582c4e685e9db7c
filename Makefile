# linformer: build/linformer, build/liblinformer.a.  `make help` lists the targets.
#
# BUILD  release | debug | asan | double       objects and binaries in build/$(BUILD)
# ARCH   the -march of the build (native); `make ARCH=` builds for any processor of the family
# V=1 shows the commands, WERROR=1 turns warnings into errors.  CC, CXX, CPPFLAGS, CFLAGS, CXXFLAGS, LDFLAGS and LDLIBS are respected, and so are
# BLAS_CFLAGS, BLAS_LIBS and the like of YAML, CJSON, SPM, ZLIB, ZSTD and XXHASH.  OMP= builds without OpenMP.
# SKIP="src/x/y.c ..." leaves files out, TESTS="err io" links only those test modules.

VERSION := 0.1.0
BUILD  ?= release
ARCH   ?= native
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config

all:

# ---- flags

STD  := -std=c11 -D_POSIX_C_SOURCE=200809L
WARN := -Wall -Wextra -Wshadow -Wvla -Wpointer-arith
WARN_C := -Wstrict-prototypes -Wmissing-prototypes
FAST := -O3 $(if $(ARCH),-march=$(ARCH)) -fno-math-errno -fno-trapping-math
OPT_release := $(FAST)
OPT_debug   := -O0 -g3
# the sanitizers hide from gcc what it would know of string lengths
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-Wno-format-truncation
OPT_double  := $(FAST) -g -DREAL_IS_DOUBLE
OPT := $(or $(OPT_$(BUILD)),$(error BUILD=$(BUILD): want release, debug, asan or double))

# clean and help must work where nothing is installed
ifneq ($(if $(MAKECMDGOALS),$(filter-out clean help,$(MAKECMDGOALS)),all),)

# use_library: 1 variable prefix, 2 pkg-config name, 3 Debian package
define use_library
ifndef $(1)_LIBS
$(1)_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(2) 2>/dev/null)
$(1)_LIBS := $(shell $(PKG_CONFIG) --libs $(2) 2>/dev/null)
endif
ifeq ($$($(1)_LIBS),)
MISSING += $(2)
MISSING_PACKAGES += $(3)
endif
LIB_CFLAGS += $$($(1)_CFLAGS)
LIB_LIBS += $$($(1)_LIBS)
endef
$(eval $(call use_library,BLAS,openblas,libopenblas-openmp-dev))
$(eval $(call use_library,YAML,yaml-0.1,libyaml-dev))
$(eval $(call use_library,CJSON,libcjson,libcjson-dev))
$(eval $(call use_library,SPM,sentencepiece,libsentencepiece-dev))
$(eval $(call use_library,ZLIB,zlib,zlib1g-dev))
$(eval $(call use_library,ZSTD,libzstd,libzstd-dev))
$(eval $(call use_library,XXHASH,libxxhash,libxxhash-dev))

OMP ?= $(shell d=$$(mktemp -d) && echo 'int main(void){return 0;}' >$$d/a.c && \
	$(CC) -fopenmp $$d/a.c -o $$d/a 2>/dev/null && echo -fopenmp; rm -rf $$d)
OMP := $(OMP)
OMP_FLAGS := $(or $(OMP),-Wno-unknown-pragmas) -fopenmp-simd $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),-Wno-pass-failed)
endif

# Objects of other flags live in a folder of their own: changing a flag never mixes objects.  WERROR changes none.
Q := $(if $(V),,@)
quote = '$(subst ','\'',$(1))'
NOT_DEFAULT := $(strip $(foreach v,CC CXX,$(if $(filter-out default,$(origin $(v))),$(v)=$($(v)))) \
	$(if $(filter-out native,$(or $(ARCH),portable)),ARCH=$(ARCH)) \
	$(if $(filter undefined,$(origin OMP)),,$(if $(OMP),,OMP=)) \
	$(CPPFLAGS) $(CFLAGS) $(CXXFLAGS) $(LDFLAGS) $(LDLIBS) \
	$(foreach v,BLAS YAML CJSON SPM ZLIB ZSTD XXHASH,$(if $(filter command environment,$(origin $(v)_LIBS)),$($(v)_LIBS))))
SUFFIX := $(if $(NOT_DEFAULT),-$(shell printf %s $(call quote,$(NOT_DEFAULT)) | cksum | cut -d' ' -f1))
OUT := build/$(BUILD)$(SUFFIX)

COMMON := $(WARN) $(if $(WERROR),-Werror) $(OPT) $(OMP_FLAGS) -DLINFORMER_VERSION='"$(VERSION)"' -Iinclude $(LIB_CFLAGS)
COMPILE_C   = $(CC) $(STD) $(WARN_C) $(COMMON) -MMD -MP $(CPPFLAGS) $(CFLAGS)
COMPILE_CXX = $(CXX) -std=c++17 $(COMMON) -MMD -MP $(CPPFLAGS) $(CXXFLAGS)
# sentencepiece is C++, so the C++ driver links
LINK = $(CXX) $(OPT) $(OMP) $(LDFLAGS)
LIBS = $(LIB_LIBS) -lpthread -lm $(LDLIBS)

# ---- files

SOURCES := $(filter-out $(SKIP),$(sort $(wildcard src/*/*.c src/*/*.cc)))
CLI_SOURCES := $(filter src/cli/%,$(SOURCES))
LIB_SOURCES := $(filter-out $(CLI_SOURCES),$(SOURCES))
TEST_MODULES := $(or $(TESTS),$(patsubst tests/test_%.c,%,$(filter-out $(SKIP),$(sort $(wildcard tests/test_*.c)))))
TEST_SOURCES := $(filter-out tests/test_%,$(filter-out $(SKIP),$(sort $(wildcard tests/*.c)))) $(TEST_MODULES:%=tests/test_%.c)
objects = $(addsuffix .o,$(basename $(addprefix $(OUT)/,$(1))))
LIB_OBJECTS  := $(call objects,$(LIB_SOURCES))
CLI_OBJECTS  := $(call objects,$(CLI_SOURCES))
TEST_OBJECTS := $(call objects,$(TEST_SOURCES)) $(OUT)/tests/modules.o
FUZZERS := $(patsubst tests/fuzz/%.c,$(OUT)/%,$(wildcard tests/fuzz/fuzz_*.c))
.SECONDARY:
# `make clean all`: one after the other
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
.DELETE_ON_ERROR:

# ---- building

# all processors; a -j on the command line wins over this one
ifeq ($(MAKELEVEL),0)
MAKEFLAGS := $(MAKEFLAGS) -j$(shell nproc 2>/dev/null || echo 1)
endif

.PHONY: all libraries run_tests demo test check gradcheck asan fuzz check-headers check-layers bench compare lint ci info install \
	clean help fuzzers format FORCE
ifeq ($(BUILD),release)
all: build/linformer build/liblinformer.a
else
all: $(OUT)/linformer $(OUT)/liblinformer.a
endif
run_tests: $(OUT)/run_tests

libraries:
ifdef MISSING
	@echo "error: $(PKG_CONFIG) does not find: $(MISSING)" >&2
	@echo "Debian and Ubuntu: apt-get install pkg-config $(MISSING_PACKAGES)" >&2
	@exit 1
endif
	@:

$(OUT)/%.o: %.c Makefile | libraries
	@mkdir -p $(@D)
	@echo '  CC   $@'
	$(Q)$(COMPILE_C) -c $< -o $@
$(OUT)/%.o: %.cc Makefile | libraries
	@mkdir -p $(@D)
	@echo '  CXX  $@'
	$(Q)$(COMPILE_CXX) -c $< -o $@

# the archive is made anew: a member whose source is gone must not stay
$(OUT)/liblinformer.a: $(LIB_OBJECTS)
	@rm -f $@
	@echo '  AR   $@'
	$(Q)$(AR) rcs $@ $^
$(OUT)/linformer: $(CLI_OBJECTS) $(OUT)/liblinformer.a
	@echo '  LINK $@'
	$(Q)$(LINK) $^ $(LIBS) -o $@
$(OUT)/run_tests: $(TEST_OBJECTS) $(OUT)/liblinformer.a
	@echo '  LINK $@'
	$(Q)$(LINK) $^ $(LIBS) -o $@


# the release build under its plain name; compared, because release builds of all flags share that name
build/linformer build/liblinformer.a: build/%: $(OUT)/% FORCE
	@cmp -s $< $@ || { cp $< $@.new && mv -f $@.new $@; }

# the list of the test modules that are there, rewritten only when it changes
$(OUT)/tests/modules.c: FORCE
	@mkdir -p $(@D)
	@{ echo '#include "harness.h"'; \
	for m in $(TEST_MODULES); do echo "extern const Test tests_$$m[];"; done; \
	echo 'extern const TestModule test_modules[];'; \
	echo 'const TestModule test_modules[] = {'; \
	for m in $(TEST_MODULES); do echo "    {\"$$m\", tests_$$m},"; done; \
	echo '    {0}};'; } >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(OUT)/tests/modules.o: $(OUT)/tests/modules.c | libraries
	$(Q)$(COMPILE_C) -Itests -c $< -o $@

$(OUT)/fuzz_%: $(OUT)/tests/fuzz/fuzz_%.o $(OUT)/tests/fuzz/driver.o $(OUT)/liblinformer.a
	@echo '  LINK $@'
	$(Q)$(LINK) $^ $(LIBS) -o $@

-include $(patsubst %.o,%.d,$(LIB_OBJECTS) $(CLI_OBJECTS) $(TEST_OBJECTS) $(wildcard $(OUT)/tests/fuzz/*.o))

# ---- targets

SUB = $(MAKE) --no-print-directory
JUST_DOUBLE = build/double$(SUFFIX)
HEADERS := $(sort $(wildcard include/*.h))
FUZZ_SECONDS ?= 60

# installs what is missing, so the libraries are looked up again by a make of its own
demo:
	@scripts/install_deps.sh
	+@$(SUB) BUILD=release all
	@scripts/demo.sh build/linformer

test:
	@scripts/install_deps.sh
	+@$(SUB) check

# the double build repeats the tests that see the type `real`; the others would be the same tests
check:
	+@$(SUB) BUILD=release all run_tests
	+@$(SUB) BUILD=double run_tests
	@scripts/test.sh build/linformer build/release$(SUFFIX)/run_tests $(JUST_DOUBLE)/run_tests \
	$$(grep -ls 'include/real\.h' $(TEST_MODULES:%=$(JUST_DOUBLE)/tests/test_%.d) | sed 's|.*/test_\(.*\)\.d|\1/|')

gradcheck:
	+@$(SUB) BUILD=double run_tests
	@$(JUST_DOUBLE)/run_tests grad

asan:
	+@$(SUB) BUILD=asan all run_tests
	@$(if $(T),build/asan$(SUFFIX)/run_tests $(T),scripts/test.sh build/asan$(SUFFIX)/linformer build/asan$(SUFFIX)/run_tests)

fuzz:
	+@$(SUB) BUILD=asan fuzzers
	@scripts/fuzz.sh build/asan$(SUFFIX) $(FUZZ_SECONDS)
fuzzers: $(FUZZERS)

check-headers: | libraries
	@for h in $(HEADERS) $(sort $(wildcard src/*/*.h)); do \
	echo "#include \"$$h\"" | $(CC) $(STD) $(WARN_C) $(filter-out -MMD -MP,$(COMMON)) -I. -I$$(dirname $$h) -Werror -fsyntax-only \
	-x c - || exit 1; done
	@echo "headers compile alone"

check-layers:
	@scripts/check_layers.sh

lint: check-headers check-layers
	@scripts/lint.sh

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cc')

bench: build/linformer
	build/linformer bench kernels
	build/linformer bench step configs/pretrain/small.yaml

# Python with torch and numpy; COMPARE adds options, or another config
PYTHON ?= python3
COMPARE ?= configs/pretrain/linformer-base.yaml tokenizer.vocab_size=32000
compare: build/linformer
	$(PYTHON) scripts/compare_torch.py $(COMPARE)

ci:
	@.ci/run

info: | libraries
	@echo "compiler   $$($(CC) --version | head -n 1)"
	@echo "           $$($(CXX) --version | head -n 1)"
	@echo "flags      $(strip $(STD) $(OPT) $(OMP_FLAGS) $(CPPFLAGS) $(CFLAGS))"
	@echo "openmp     $(or $(OMP),none: 1 thread)"
	@for p in openblas yaml-0.1 libcjson sentencepiece zlib libzstd libxxhash; do \
	printf '%-10s %s\n' "$${p#lib}" "$$($(PKG_CONFIG) --modversion $$p)"; done
	@echo "output     $(OUT)"

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/linformer
	install -m 755 $(OUT)/linformer $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(OUT)/liblinformer.a $(DESTDIR)$(PREFIX)/lib
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include/linformer
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(strip $(LIBS) $(OMP)) -lstdc++|' \
	scripts/linformer.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/linformer.pc

clean:
	rm -rf build

help:
	@echo 'make                build/linformer and build/liblinformer.a'
	@echo 'make demo           install what is missing, build, pretrain a tiny model on made text, fill masks, fine-tune'
	@echo 'make test           install what is missing, build, run all tests; the last line is "N passed, N failed"'
	@echo 'make check          the same without installing'
	@echo 'make gradcheck      gradients of kernels and model against differences, in double'
	@echo 'make asan           all tests under the address and undefined-behaviour sanitizers; T="filter ..." picks some'
	@echo 'make fuzz           every fuzz target for FUZZ_SECONDS=60 under the sanitizers'
	@echo 'make bench          speed of the kernels and of a training step'
	@echo 'make compare        our speed and memory beside those of PyTorch, taking turns; PYTHON= with torch, COMPARE="CONFIG options"'
	@echo 'make lint           check-headers, check-layers, forbidden flags, and the linters that are installed'
	@echo 'make check-headers  every header compiles alone'
	@echo 'make check-layers   includes go downward only, third-party headers stay with their owners'
	@echo 'make format         clang-format on all sources'
	@echo 'make ci             what the continuous integration runs: tests with -Werror, lint, sanitizers'
	@echo 'make info           compiler, flags and library versions'
	@echo 'make install        program, library, headers and linformer.pc below PREFIX=/usr/local (DESTDIR respected)'
	@echo 'make clean          remove build/'
	@echo
	@echo 'BUILD=release|debug|asan|double, in build/$$(BUILD); ARCH= for a portable binary (native); WERROR=1; V=1; CC, CFLAGS, LDFLAGS'
