# Compiler and linker flags for all of our code, as one interface target: utter_flags.
option(UTTER_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(UTTER_FUZZ "build fuzz_*.c as libFuzzer programs (clang)" OFF)
option(UTTER_TESTS "build the tests" ON)

include(CheckCCompilerFlag)

add_library(utter_flags INTERFACE)
target_compile_features(utter_flags INTERFACE c_std_17)
target_compile_definitions(utter_flags INTERFACE _GNU_SOURCE UTTER_VERSION="${PROJECT_VERSION}")
target_include_directories(utter_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_options(utter_flags INTERFACE
    -Werror -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wcast-qual -Wwrite-strings -Wformat=2 -Wvla -Wundef -Wswitch-enum
    -Wimplicit-fallthrough -fno-common -fvisibility=hidden -fno-strict-aliasing -fPIE
    # The same program, to the byte, wherever it is compiled: the gate's image has one digest.
    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
target_link_options(utter_flags INTERFACE -pie -Wl,--as-needed)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    # clang 14 takes our documented GNU statement expressions and comma-VA forms only with a note.
    target_compile_options(utter_flags INTERFACE -Wno-gnu -Wno-missing-field-initializers)
endif()

if(UTTER_SANITIZE)
    target_compile_options(utter_flags INTERFACE -O1 -g -fno-omit-frame-pointer
        -fsanitize=address,undefined -fno-sanitize-recover=all)
    target_link_options(utter_flags INTERFACE -fsanitize=address,undefined)
else()
    foreach(flag -O2 -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
            -ftrivial-auto-var-init=zero -fzero-call-used-regs=used)
        string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
        check_c_compiler_flag(${flag} ${have})
        if(${have})
            target_compile_options(utter_flags INTERFACE ${flag})
        endif()
    endforeach()
    target_compile_options(utter_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    target_link_options(utter_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code)
endif()
if(UTTER_FUZZ)
    target_compile_options(utter_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
