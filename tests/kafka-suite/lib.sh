# What check and baseline share: running classes, and reading the verdicts. Sourced; `here` is this folder.
# A JVM runs so many classes: its start takes seconds, and what many classes leave behind takes memory.
classes_per_jvm_max=12
# Side by side more of them, for the longest takes eight minutes by itself.
classes_together_max=30
parallel=-Djunit.jupiter.execution.parallel
side_by_side=("$parallel.enabled=true" "$parallel.mode.classes.default=concurrent" "$parallel.config.strategy=fixed"
  "$parallel.config.fixed.parallelism=5")
export KO_CACHE=${KO_CACHE:-$here/../../.cache/kafka-suite}
# Runs classes on the broker of a launcher, in JVMs of the given flags; adds their lines to the file.
run() {
  local launcher=$1 lines=$2 i flags=(); shift 2
  while [ "$1" != -- ]; do flags+=("$1"); shift; done; shift
  for ((i = 1; i <= $#; i += classes_per_jvm_max)); do
    "$here/run" "$launcher" "${flags[@]}" -Dko.timeout='120 s' -Dko.brokers=1 -Dko.controller=inline \
      "${@:i:classes_per_jvm_max}" | tee -a "$lines" || true
  done
}
# Tests (class, method) that passed in every variant.
passed() {
  awk '{ verdict = substr($0, 1, 4); split(substr($0, 6), word, /[# ]/); test = word[1] "\t" word[2] }
    verdict == "PASS" { passed[test] } verdict == "FAIL" || verdict == "N/A " { other[test] }
    END { for (test in passed) if (!(test in other)) print test }' "$1" | sort -u
}
# Whether a class runs beside others.
waits_mostly() { case $1 in org.apache.kafka.streams.*) ;; *) return 1 ;; esac; }
