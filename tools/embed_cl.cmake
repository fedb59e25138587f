# Writes a C file that holds the kernel files as byte arrays (C11 need not accept long literals).
# cmake -DOUT=file.c "-DFILES=a.cl;b.clh" -P embed_cl.cmake
set(arrays "")
set(table "")
set(count 0)
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR size "${digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n${hex}0x00};\n")
    string(APPEND table "    {\"${name}\", text_${count}, ${size}},\n")
    math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUT}.part"
    "/* Generated from cl/ by tools/embed_cl.cmake. */\n"
    "#include \"runtime/kernel_source.h\"\n\n${arrays}\n"
    "const clprune__kernel_source clprune__kernel_sources[] = {\n${table}};\n"
    "const size_t clprune__kernel_sources_count = ${count};\n")
file(RENAME "${OUT}.part" "${OUT}")
