# What is installed, in three components: runtime (the shared library), development, tools (the programs,
# their man pages and completions). Every path is relative, so a prefix may be moved as a whole.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/clprune)
file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

# Debian has a folder of its own for zsh's completions that come with packages.
set(zsh_folder site-functions)
if(CLPRUNE_DEB)
    set(zsh_folder vendor-completions)
endif()

# clprune_program(name summary [plain]): installs a program that finds the library of its own prefix, and its man
# page and completions for bash, zsh and fish, made from its --help. A program of MPI is not run for that but `plain`, which
# says the same; it is of the component mpi, which Debian packages leave out.
function(clprune_program name summary)
    set(plain ${name})
    set(component tools)
    if(ARGN)
        set(plain ${ARGN})
        set(component mpi)
    endif()
    if(CLPRUNE_SHARED)
        set_target_properties(${name} PROPERTIES INSTALL_RPATH "${clprune_origin}/${bin_to_lib};${CMAKE_INSTALL_RPATH}")
    endif()
    if(CLPRUNE_INSTALL)
        install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
    endif()
    if(CMAKE_CROSSCOMPILING)
        return() # the program does not run here
    endif()
    set(script ${PROJECT_SOURCE_DIR}/tools/package/man_page.sh)
    set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
    add_custom_command(OUTPUT ${page}
        COMMAND sh ${script} $<TARGET_FILE:${plain}> "${summary}" ${PROJECT_VERSION} ${CLPRUNE_DATE} ${page}
        DEPENDS ${plain} ${script} COMMENT "Writing man/${name}.1" VERBATIM)
    set(completion_script ${PROJECT_SOURCE_DIR}/tools/package/completion.sh)
    set(completion ${PROJECT_BINARY_DIR}/completion)
    add_custom_command(OUTPUT ${completion}/${name}.bash ${completion}/_${name} ${completion}/${name}.fish
        COMMAND sh ${completion_script} $<TARGET_FILE:${plain}> ${completion} ${name}
        DEPENDS ${plain} ${completion_script} COMMENT "Writing completion/${name}.*" VERBATIM)
    add_custom_target(${name}-man ALL DEPENDS ${page} ${completion}/${name}.bash)
    if(CLPRUNE_INSTALL)
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
        install(FILES ${completion}/${name}.bash COMPONENT ${component}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${name})
        install(FILES ${completion}/_${name} COMPONENT ${component}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder})
        install(FILES ${completion}/${name}.fish COMPONENT ${component}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    endif()
endfunction()

if(NOT CLPRUNE_INSTALL)
    return()
endif()

set(python_files FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
if(CLPRUNE_SHARED)
    # Windows: the DLL lies beside the programs, and what programs link is in an archive.
    install(TARGETS clprune EXPORT clprune-shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
    # A Python wheel (examples/pytorch/pyproject.toml) has no symbolic links.
    if(DEFINED SKBUILD)
        set_target_properties(clprune PROPERTIES VERSION ${abi_version})
        install(DIRECTORY examples/pytorch/clprune DESTINATION ${SKBUILD_PLATLIB_DIR} COMPONENT python ${python_files})
    endif()
    install(EXPORT clprune-shared NAMESPACE clprune:: DESTINATION ${package_dir} COMPONENT development)
endif()
if(CLPRUNE_STATIC)
    install(TARGETS clprune_static EXPORT clprune-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT development)
    install(EXPORT clprune-static NAMESPACE clprune:: DESTINATION ${package_dir} COMPONENT development)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/clprune DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT development FILES_MATCHING PATTERN "*.h")

include(CMakePackageConfigHelpers)
configure_package_config_file(tools/package/clprune-config.cmake.in
    ${PROJECT_BINARY_DIR}/clprune-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/clprune-config-version.cmake
    COMPATIBILITY ${abi_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/clprune-config.cmake
    ${PROJECT_BINARY_DIR}/clprune-config-version.cmake DESTINATION ${package_dir} COMPONENT development)

# Beside itself, wherever cmake --install --prefix or a stage has put it. Programs that link the static
# library need what it needs.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
if(IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
endif()
set(pc_static_libs "-lpthread -lm")
if(WIN32)
    string(APPEND pc_static_libs " -lssp")
endif()
if(CLPRUNE_CLBLAST)
    string(PREPEND pc_static_libs "-lclblast ")
endif()
set(pc_libs "-lclprune\nLibs.private: ${pc_static_libs}")
if(NOT CLPRUNE_SHARED)
    set(pc_libs "-lclprune ${pc_static_libs}")
endif()
configure_file(tools/package/clprune.pc.in ${PROJECT_BINARY_DIR}/clprune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/clprune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
# The pages for users, in folders as here, so that the links from one to another work.
foreach(page README.md SECURITY.md include/clprune/README.md tools/README.md
        examples/README.md examples/RECORDS.md examples/quickstart.c examples/mlp.c examples/digits.h examples/unet.c
        examples/rectangles.h examples/trainer/README.md examples/trainer/model/README.md examples/resmlp/README.md examples/airbench/README.md examples/resnet/README.md
        examples/gpt/README.md examples/bert/README.md examples/bert/tokens.py examples/pytorch/README.md)
    get_filename_component(folder ${page} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT development)
endforeach()
install(DIRECTORY examples/pytorch/clprune DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/pytorch COMPONENT development ${python_files})
