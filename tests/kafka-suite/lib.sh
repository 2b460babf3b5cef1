# What check and baseline share: running classes, and reading the verdicts. Sourced; `here` is this folder.
# A JVM runs so many classes: its start takes seconds, and what many classes leave behind takes memory.
classes_per_jvm_max=12
# Side by side more of them, for the longest takes eight minutes by itself.
classes_together_max=30
parallel=-Djunit.jupiter.execution.parallel
side_by_side=("$parallel.enabled=true" "$parallel.mode.classes.default=concurrent" "$parallel.config.strategy=fixed"
  "$parallel.config.fixed.parallelism=5")
export KO_CACHE=${KO_CACHE:-$here/../../.cache/kafka-suite}
# Runs classes on the broker of a launcher, in JVMs of the given flags; adds their lines to the file. Mirror's have a JVM each: their
# tests find the metrics of the first of them alone.
run() {
  local launcher=$1 lines=$2 class flags=() batch=(); shift 2
  while [ "$1" != -- ]; do flags+=("$1"); shift; done; shift
  for class; do
    case $class in
      *.mirror.*) run_together "$class" ;;
      *) batch+=("$class"); if [ ${#batch[@]} -eq "$classes_per_jvm_max" ]; then run_together "${batch[@]}"; batch=(); fi ;;
    esac
  done
  if [ ${#batch[@]} -gt 0 ]; then run_together "${batch[@]}"; fi
}
# Runs classes in one JVM, with what `run` was given.
run_together() {
  "$here/run" "$launcher" "${flags[@]}" -Dko.timeout='120 s' -Dko.brokers=1 -Dko.controller=inline "$@" | tee -a "$lines" || true
}
# The tests in the lines of a run: class, method, verdict and number of variants. A test passes when every variant of it does.
verdicts() {
  awk '{ verdict = substr($0, 1, 4) }
    verdict == "PASS" || verdict == "FAIL" || verdict == "N/A " {
      split(substr($0, 6), word, /[# ]/); test = word[1] "\t" word[2]; runs[test]++
      if (verdict != "PASS") bad[test] = verdict == "FAIL" ? "FAIL" : "N/A"
    }
    END { for (test in runs) print test "\t" (test in bad ? bad[test] : "PASS") "\t" runs[test] }' "$1" | sort
}
# Tests (class, method) that passed.
passed() { verdicts "$1" | awk -F'\t' '$3 == "PASS" { print $1 "\t" $2 }'; }
# Divides classes into those that run one after the other and those that mostly wait and run side by side.
divide() {
  local class
  alone=() together=()
  for class; do
    case $class in org.apache.kafka.streams.*) together+=("$class") ;; *) alone+=("$class") ;; esac
  done
}
