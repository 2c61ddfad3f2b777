#!/usr/bin/env bash
# An installed program finds all that it needs in its own prefix, wherever that is moved, and two of them stand side by side.
# usage: install_test.sh CMAKE BUILD
set -euo pipefail
cmake=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SFTBENCH_HOME SFTBENCH_ENGINE
fail() {
  echo "install_test: $1" >&2
  exit 1
}

DESTDIR=$work/root "$cmake" --install "$build" --prefix /opt/sftbench >"$work/log" || { cat "$work/log" >&2; fail "cannot install"; }
mv "$work/root/opt/sftbench" "$work/moved"
cp -r "$work/moved" "$work/second"
for prefix in "$work/moved" "$work/second"; do
  cd "$work"
  "$prefix/bin/sftbench" experiments --format json | grep -q finetune_lora_benchmark || fail "$prefix knows no experiments"
  "$prefix/bin/sftbench" doctor --format json | grep -q '"libtorch"' || fail "$prefix finds no engine"
done

gzip -dc moved/share/man/man1/sftbench.1.gz >page
for heading in NAME SYNOPSIS OPTIONS COMMANDS EXAMPLES; do
  grep -q "^\.SH $heading" page || fail "the man page has no $heading"
done
for command in run sweep predict report; do
  grep -q "^\.SS $command" page || fail "the man page does not describe $command"
done
bash -n moved/share/bash-completion/completions/sftbench
grep -q '^#compdef sftbench' moved/share/zsh/vendor-completions/_sftbench || fail "zsh's completion has no #compdef"
grep -q 'complete -c sftbench' moved/share/fish/vendor_completions.d/sftbench.fish || fail "fish completes nothing"

# A copy of the program alone says what it lacks.
mkdir alone && cp moved/bin/sftbench alone/
if said=$(alone/sftbench experiments 2>&1); then fail "a program without its files answered"; fi
[[ $said == *"set SFTBENCH_HOME"* ]] || fail "a program without its files said: $said"
echo "install_test: fine"
