"""The library for Conan 2, from the clone in which this recipe lies: conan create tools/package/conan --build=missing"""
import os
import re
import shutil

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Clprune(ConanFile):
    name = "clprune"
    description = "Trains neural networks with a fraction of the activations kept for the backward pass, on OpenCL devices"
    license = "MIT"
    topics = ("opencl", "neural-networks", "training")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "with_clblast": [True, False]}
    # A static CLBlast, which is C++, does not link into programs in C.
    default_options = {"shared": False, "with_clblast": False, "clblast/*:shared": True}

    def _clone(self, *path):
        return os.path.join(self.recipe_folder, "..", "..", "..", *path)

    def set_version(self):
        self.version = re.search(r"project\(clprune VERSION ([0-9.]+)", load(self, self._clone("CMakeLists.txt")))[1]

    def export_sources(self):
        for folder in "cl", "examples", "include", "src", "tools":
            copy(self, "*", self._clone(folder), os.path.join(self.export_sources_folder, folder),
                 excludes=["package/conan/*", "package/vcpkg/*", "*results/*", "*__pycache__*"])
        for file in "CMakeLists.txt", "LICENSE", "README.md", "SECURITY.md":
            shutil.copy(self._clone(file), self.export_sources_folder)

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.compiler == "msvc":
            raise ConanInvalidConfiguration("clprune needs GCC or Clang; on Windows that of mingw-w64")

    def requirements(self):
        # CLBlast's recipe requires this version, too.
        self.requires("opencl-icd-loader/2025.07.22", transitive_headers=True, transitive_libs=True)
        if self.options.with_clblast:
            self.requires("clblast/1.7.0")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "CLPRUNE_SHARED": bool(self.options.shared),
            "CLPRUNE_STATIC": not self.options.shared,
            "CLPRUNE_CLBLAST": bool(self.options.with_clblast),
            "CLPRUNE_EXAMPLES": False,
            "CLPRUNE_TESTS": False,
            "CLPRUNE_TOOLS": False,
        })
        toolchain.generate()
        deps = CMakeDeps(self)  # by the names that CMakeLists.txt looks for
        deps.set_property("opencl-icd-loader", "cmake_file_name", "OpenCL")
        deps.set_property("opencl-icd-loader", "cmake_target_name", "OpenCL::OpenCL")
        deps.set_property("clblast", "cmake_file_name", "CLBlast")
        deps.set_property("clblast", "cmake_target_name", "clblast")
        deps.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in "lib/cmake", "lib/pkgconfig", "share":  # Conan's generators write such files for each user
            rmdir(self, os.path.join(self.package_folder, folder))

    def package_info(self):
        self.cpp_info.libs = ["clprune"]
        # As in CMakeLists.txt: before 1.0 a minor version may break programs.
        self.cpp_info.set_property("cmake_config_version_compat",
                                   "SameMinorVersion" if self.version.startswith("0.") else "SameMajorVersion")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread", "m"] + (["ssp"] if self.settings.os == "Windows" else [])
