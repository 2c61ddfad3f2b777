// What a manifest finds: every byte of every file, and of the manifest itself.
#include "sftbench/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Manifests = FolderTest;

std::string verification(const fs::path& folder) {
  return problem_of([&] { verify_files(folder, read_checkpoint_manifest(folder)); });
}

TEST_F(Manifests, SayWhatWasSaved) {
  make_checkpoint(12);
  const Manifest manifest = read_checkpoint_manifest(root_ / "checkpoint-12");
  EXPECT_EQ(manifest.kind, "checkpoint");
  EXPECT_EQ(manifest.step, 12);
  EXPECT_EQ(manifest.job, "a job");
  EXPECT_EQ(manifest.format, "FULL");
  ASSERT_EQ(manifest.files.size(), 2);
  EXPECT_EQ(manifest.files[0].name, "model.safetensors");
  EXPECT_EQ(manifest.files[0].bytes, 7);
  EXPECT_EQ(manifest.files[0].xxh3_128.size(), 32);
  EXPECT_EQ(verification(root_ / "checkpoint-12"), "no problem");
}

// Each byte of every file in one of its bits, and every length.
TEST_F(Manifests, FindEveryFlippedBitAndEveryTruncation) {
  make_checkpoint(3);
  const fs::path folder = root_ / "checkpoint-3";
  for (const std::string& name : names_in(folder)) {
    const std::string whole = read_file(folder / name);
    for (size_t byte = 0; byte < whole.size(); ++byte) {
      std::string flipped = whole;
      flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << byte % 8));
      std::ofstream(folder / name) << flipped;
      EXPECT_THAT(verification(folder), HasSubstr("checkpoint-3/" + name)) << "byte " << byte;
      std::ofstream(folder / name) << whole.substr(0, byte);
      EXPECT_THAT(verification(folder), HasSubstr("checkpoint-3/" + name)) << byte << " bytes left";
    }
    std::ofstream(folder / name) << whole << '\n';
    EXPECT_THAT(verification(folder), HasSubstr("checkpoint-3/" + name)) << "a byte more";
    fs::remove(folder / name);
    EXPECT_THAT(verification(folder), HasSubstr("checkpoint-3/" + name + ": missing"));
    std::ofstream(folder / name) << whole;
  }
  EXPECT_EQ(verification(folder), "no problem");
}

TEST_F(Manifests, FindFilesOfOtherFolders) {
  make_checkpoint(3, "weights of 3");
  make_checkpoint(4, "weights of 4");
  fs::copy_file(root_ / "checkpoint-3/model.safetensors", root_ / "checkpoint-4/model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(verification(root_ / "checkpoint-4"),
              HasSubstr("checkpoint-4/model.safetensors: damaged, or a file of another folder"));
  fs::copy_file(root_ / "checkpoint-3/sftbench_manifest.json",
                root_ / "checkpoint-4/sftbench_manifest.json",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(
      verification(root_ / "checkpoint-4"),
      HasSubstr("checkpoint-4/sftbench_manifest.json: is of step 3; expected step 4, as the "
                "folder is named"));
  fs::rename(root_ / "checkpoint-4", root_ / "best");  // its owner's own name for it
  EXPECT_EQ(verification(root_ / "best"), "no problem");
}

TEST_F(Manifests, FindWeightsThatWereAdded) {
  make_checkpoint(3);
  const fs::path folder = root_ / "checkpoint-3";
  write_file_atomic(folder / "notes.txt", "mine");
  EXPECT_EQ(verification(folder), "no problem");
  for (const char* name : {"model_pieces.json", "model.safetensors.index.json",
                           "optimizer-rank-00001-of-00002.safetensors"}) {
    write_file_atomic(folder / name, "");
    EXPECT_THAT(verification(folder), HasSubstr(std::string(name) + ": does not belong to this"));
    fs::remove(folder / name);
  }
}

TEST_F(Manifests, ShareTheirFilesAmongThoseWhoRead) {
  make_checkpoint(3);
  const fs::path folder = root_ / "checkpoint-3";
  const Manifest manifest = read_manifest(folder);
  write_file_atomic(folder / "model.safetensors", "Weights");
  EXPECT_NE(problem_of([&] { verify_files(folder, manifest, 0, 2); }), "no problem");
  EXPECT_EQ(problem_of([&] { verify_files(folder, manifest, 1, 2); }), "no problem");
  EXPECT_EQ(problem_of([&] { verify_files(folder, manifest, 2, 3); }), "no problem");
}

TEST_F(Manifests, AreNeededAndAreThoseOfACheckpoint) {
  make_checkpoint(3);
  fs::remove(root_ / "checkpoint-3/sftbench_manifest.json");
  EXPECT_THAT(
      verification(root_ / "checkpoint-3"),
      HasSubstr("sftbench_manifest.json: missing: what the folder holds cannot be verified; "
                "expected a folder that this version has saved; earlier ones wrote no "
                "checksums"));
  write_saved(root_ / "model", "model", 3, {{"model.safetensors", "weights"}});
  EXPECT_THAT(verification(root_ / "model"),
              HasSubstr("of a model; expected that of a checkpoint"));
  write_file_atomic(root_ / "model/sftbench_manifest.json", "[]\n");
  EXPECT_THAT(verification(root_ / "model"),
              HasSubstr("not a manifest that this version reads; expected \"schema\": "
                        "\"sftbench.saved/1\""));
}

TEST_F(Manifests, TellWhetherAFolderHoldsAnythingElse) {
  make_checkpoint(3);
  const fs::path folder = root_ / "checkpoint-3";
  EXPECT_TRUE(holds_only_saved_files(folder));
  EXPECT_FALSE(holds_only_saved_files(root_));
  EXPECT_FALSE(holds_only_saved_files(root_ / "nowhere"));
  fs::create_directory(folder / "mine");
  EXPECT_FALSE(holds_only_saved_files(folder));
  fs::remove(folder / "mine");
  fs::rename(folder / "model.safetensors", root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", folder / "model.safetensors");
  EXPECT_FALSE(holds_only_saved_files(folder));
}

TEST(SavedFileNames, AreThoseThatAModelOrACheckpointHas) {
  for (const char* name : {"config.json", "model.safetensors", "model-00001-of-00002.safetensors",
                           "model_pieces.json", "optimizer_pieces.json", "tokenizer.json",
                           "adapter_model.safetensors", "sftbench_manifest.json", "README.md"}) {
    EXPECT_TRUE(is_saved_file_name(name)) << name;
  }
  for (const char* name : {"thesis.tex", "checkpoint-3", "results.json", "mine.safetensors", ""}) {
    EXPECT_FALSE(is_saved_file_name(name)) << name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
