# Own imported targets for libtorch; find_package(Torch) would demand the CUDA toolkit.
# This file and scripts/setup.sh are the only places that know the version and the wheel's layout.
#   llmtrain::torch_cpu    libtorch_cpu + libc10
#   llmtrain::torch_cuda   libtorch_cuda + libc10_cuda + NCCL (only with LLMTRAIN_WITH_CUDA)
set(LLMTRAIN_TORCH_VERSION 2.13.0)

file(GLOB _site "${LLMTRAIN_VENV}/lib/python3*/site-packages")
set(_torch "${_site}/torch")
if(NOT EXISTS "${_torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no torch wheel in ${LLMTRAIN_VENV}; run scripts/setup.sh, or pass -DLLMTRAIN_VENV=<virtual environment>")
endif()
file(STRINGS "${_torch}/version.py" _version_line REGEX "^__version__")
if(NOT _version_line MATCHES "${LLMTRAIN_TORCH_VERSION}")
  message(FATAL_ERROR "the torch wheel in ${LLMTRAIN_VENV} says ${_version_line}; llmtrain needs ${LLMTRAIN_TORCH_VERSION}: run scripts/setup.sh")
endif()

function(_llmtrain_imported name file)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}" IMPORTED_NO_SONAME OFF)
endfunction()

_llmtrain_imported(_llmtrain_c10 "${_torch}/lib/libc10.so")
_llmtrain_imported(_llmtrain_torch_cpu "${_torch}/lib/libtorch_cpu.so")

# The wheel ships its own fmt headers. They must come after those of the distribution in /usr/include, so
# -isystem (which comes before) is not enough.
add_library(llmtrain_torch INTERFACE)
add_library(llmtrain::torch_cpu ALIAS llmtrain_torch)
target_compile_options(llmtrain_torch INTERFACE
  "SHELL:-idirafter ${_torch}/include" "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include")
target_compile_definitions(llmtrain_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_link_libraries(llmtrain_torch INTERFACE -Wl,--no-as-needed _llmtrain_torch_cpu _llmtrain_c10 -Wl,--as-needed)
target_link_options(llmtrain_torch INTERFACE
  "-Wl,-rpath,${_torch}/lib" "-Wl,-rpath,${_site}/nvidia/cu13/lib" "-Wl,-rpath-link,${_site}/nvidia/cu13/lib")

if(LLMTRAIN_WITH_CUDA)
  if(NOT EXISTS "${_torch}/lib/libtorch_cuda.so" OR NOT EXISTS "${_site}/nvidia/cu13/include/cuda_runtime.h")
    message(FATAL_ERROR "the CUDA wheels are not in ${LLMTRAIN_VENV}; run scripts/setup.sh --cuda")
  endif()
  _llmtrain_imported(_llmtrain_c10_cuda "${_torch}/lib/libc10_cuda.so")
  _llmtrain_imported(_llmtrain_torch_cuda "${_torch}/lib/libtorch_cuda.so")
  _llmtrain_imported(_llmtrain_nccl "${_site}/nvidia/nccl/lib/libnccl.so.2")
  file(GLOB _cudart "${_site}/nvidia/cu13/lib/libcudart.so.*")
  _llmtrain_imported(_llmtrain_cudart "${_cudart}")
  add_library(llmtrain_torch_cuda INTERFACE)
  add_library(llmtrain::torch_cuda ALIAS llmtrain_torch_cuda)
  target_include_directories(llmtrain_torch_cuda SYSTEM INTERFACE
    "${_site}/nvidia/cu13/include" "${_site}/nvidia/nccl/include")
  target_compile_definitions(llmtrain_torch_cuda INTERFACE USE_NVSHMEM USE_C10D_NCCL)
  target_link_libraries(llmtrain_torch_cuda INTERFACE llmtrain_torch
    -Wl,--no-as-needed _llmtrain_torch_cuda _llmtrain_c10_cuda _llmtrain_nccl _llmtrain_cudart -Wl,--as-needed)
  foreach(part cu13 nccl cudnn cusparselt nvshmem)
    target_link_options(llmtrain_torch_cuda INTERFACE "-Wl,-rpath,${_site}/nvidia/${part}/lib"
      "-Wl,-rpath-link,${_site}/nvidia/${part}/lib")
  endforeach()
endif()
