#!/usr/bin/env bash
# Makes release VERSION: checks that the tree says so, tests it, builds and tries the packages, and tags the commit.
#   packaging/release.sh VERSION [--cuda]      packages come to build/packages, pushing the tag is left to you
# Before: set project(VERSION) in CMakeLists.txt, give CHANGELOG.md a section of that version and date, commit.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: packaging/release.sh VERSION [--cuda]}
refuse() {
  echo "release.sh: $1" >&2
  exit 1
}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "$version is no version MAJOR.MINOR.PATCH"
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "v$version is tagged already"
grep -q "^project(sftbench VERSION $version " CMakeLists.txt || refuse "CMakeLists.txt has another version"
grep -q "^version: $version$" CITATION.cff || refuse "CITATION.cff has another version"
grep -q "^## $version, $(date +%Y-%m-%d)$" CHANGELOG.md || refuse "CHANGELOG.md has no section '## $version, $(date +%Y-%m-%d)'"
bash .ci/run
rm -rf build/packages
bash packaging/packages.sh ${2:+"$2"} --try build/packages
(cd build/packages && sha256sum sftbench* >SHA256SUMS)
awk -v begin="## $version," 'index($0, begin) == 1 { within = 1; next } /^## / { within = 0 } within' CHANGELOG.md >build/packages/NOTES.md
git tag --annotate "v$version" --file build/packages/NOTES.md --cleanup verbatim
echo "v$version is tagged. git push origin v$version, and publish build/packages with NOTES.md"
