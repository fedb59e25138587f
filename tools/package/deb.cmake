# Three Debian packages, by `cpack -G DEB` in a build of the preset deb: the library, what programs need to
# be built with it, and the programs.
set(CLPRUNE_MAINTAINER "The clprune authors <clprune@packages.invalid>" CACHE STRING
    "Name <address> in the Debian packages")
set(library_package libclprune${abi_version})
set(control ${PROJECT_BINARY_DIR}/deb) # deb_files.cmake fills it when the packages are made
set(deb_release 1)
configure_file(tools/package/deb_files.cmake.in ${PROJECT_BINARY_DIR}/deb_files.cmake @ONLY)

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME clprune)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${CLPRUNE_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/deb_files.cmake)
set(CPACK_COMPONENTS_ALL runtime development tools)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${deb_release})
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(version_needed "(= ${PROJECT_VERSION}-${deb_release})")
set(about "Activations are kept pruned in blocks, quantised or pooled for the
backward pass, and weight gradients come from that form. It runs on any
device with OpenCL 1.2.
")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS OFF) # deb_files.cmake: cpack would also add scripts that call ldconfig
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION
    "training with block-pruned activations (library)\n${about}\nThis package has the shared library.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${control}/symbols ${control}/shlibs ${control}/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libclprune-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${library_package} ${version_needed}, ocl-icd-opencl-dev | opencl-dev, libclblast-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "training with block-pruned activations (development)\n${about}\nThis package has the headers, the static library, and files for CMake\nand pkg-config.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME clprune-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${library_package} ${version_needed}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "opencl-icd")
set(CPACK_DEBIAN_TOOLS_DESCRIPTION
    "training with block-pruned activations (programs)\n${about}\nThis package has trainers of ResMLP and ResNet on CIFAR, a list of\ndevices, a benchmark and a tuner.")
include(CPack)
