# Writes a C file that holds the files of cl/ as byte arrays (C11 need not accept long literals), and for each
# kernel file the list of its parts: what it includes, each file once and before the one that includes it.
# An #include stands between the header comment and the code. In the arrays it is a comment, as is #pragma once.
#     cmake -DOUT=file.c -DROOT=cl "-DFILES=layers/gelu.cl;prelude/nn.clh" -P embed_cl.cmake
cmake_minimum_required(VERSION 3.22)
set(arrays "")
set(count 0)
foreach(file IN LISTS FILES)
    file(READ "${ROOT}/${file}" text)
    file(STRINGS "${ROOT}/${file}" includes REGEX "^#include \"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]*)\".*" "\\1")
    foreach(include IN LISTS includes)
        if(NOT include IN_LIST FILES)
            message(FATAL_ERROR "cl/${file} includes ${include}, which is not in cl/")
        endif()
    endforeach()
    set("includes/${file}" ${includes})
    string(REGEX REPLACE "(^|\n)(#include \"[^\n]*|#pragma once)" "\\1/* \\2 */" text "${text}")
    string(LENGTH "${text}" size)
    string(HEX "${text}" hex)
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n${hex}0x00};\n"
        "static const clprune__kernel_part part_${count} = {\"${file}\", text_${count}, ${size}};\n")
    set("number/${file}" ${count})
    math(EXPR count "${count} + 1")
endforeach()

# Appends to `parts` what `file` includes, then itself; `way` is how it was reached.
macro(expand file way)
    if("${way}" MATCHES " ${file} .* ${file}$")
        message(FATAL_ERROR "a file of cl/ includes itself:${way}")
    endif()
    foreach(include IN LISTS "includes/${file}")
        if(NOT include IN_LIST parts)
            expand("${include}" "${way} ${include}")
        endif()
    endforeach()
    list(APPEND parts "${file}")
endmacro()

set(table "")
foreach(file IN LISTS FILES)
    if(file MATCHES "\\.cl$")
        set(parts "")
        expand("${file}" " ${file}")
        set(names "")
        foreach(part IN LISTS parts)
            string(APPEND names "&part_${number/${part}}, ")
        endforeach()
        string(APPEND table "    {\"${file}\", {${names}NULL}},\n")
    endif()
endforeach()
file(WRITE "${OUT}.part"
    "/* Generated from cl/ by tools/embed_cl.cmake. */\n"
    "#include \"runtime/launch/kernel_source.h\"\n\n${arrays}\n"
    "const clprune__kernel_source clprune__kernel_sources[] = {\n${table}};\n"
    "const size_t clprune__kernel_sources_count =\n"
    "    sizeof clprune__kernel_sources / sizeof *clprune__kernel_sources;\n")
file(RENAME "${OUT}.part" "${OUT}")
