// The checkout that the tests were built from: golden files, documents and profiles lie in it.
// Shape:  the path stands in source_folder.cpp alone, so that every other object file is the same
//         in every checkout, and a compiler cache finds it there.
#pragma once

#include <filesystem>

namespace sluice::test {

std::filesystem::path source_folder();

}  // namespace sluice::test
