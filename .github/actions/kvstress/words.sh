# The options of `kvstress gate` as the inputs say, in the array `words`; sourced by the steps of action.yml.
words=(--workload "$WORKLOAD")
add() { if [ -n "$2" ]; then words+=("$1" "$2"); fi; }
add --server "$SERVER"
add --launch "$LAUNCH"
add --build "$BUILD"
add --limit "$LIMIT"
add --hardware "$HARDWARE"
# A bisection is run in the server's own directory, where a relative path would mean another place.
if [ -n "$BASELINE" ]; then words+=(--baseline "$(realpath -m "$BASELINE")"); fi
while IFS= read -r sentence; do add --require "$sentence"; done <<< "$REQUIRE"
# An option and its value stand on one line; the value may have blanks.
while read -r option value; do
  if [ -n "$option" ]; then words+=("$option"); fi
  if [ -n "$value" ]; then words+=("$value"); fi
done <<< "$OPTIONS"
