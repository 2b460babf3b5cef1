#!/bin/bash
# Regenerates the option tables of crates/config/options from the class files of an Apache Kafka release.
# Usage: scripts/extract-configs/run.sh <directory with the release's jars>
# With --check as second argument nothing is changed; the exit status says whether the committed tables are current.
set -euo pipefail
libs=${1:?directory with the jars of the Kafka release}
here=$(cd "$(dirname "$0")" && pwd)
tables=$here/../../crates/config/options
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$tables"
cp -r "$tables" "$work/tables"
javac -d "$work" -cp "$libs/*" "$here/ExtractConfigs.java"
java -cp "$libs/*:$work" ExtractConfigs "$work/tables" 2>/dev/null
if [ "${2:-}" = --check ]; then
    diff -r "$tables" "$work/tables" && echo "the tables are current"
else
    cp "$work/tables"/*.tsv "$tables/"
fi
