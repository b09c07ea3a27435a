# shellcheck shell=bash
# Runs a checker on one test, in the checker's own sandbox. Its arguments are the checker's command line, which
# names the files below as its kind wants them. Standard input has a line with the sizes of input and answer, then
# the two, then the output to be judged. Standard output gets what internal/grading's Rule reads.
umask 077
data=/tmp/.glovebox
mkdir "$data" "$data/feedback" && IFS=' ' read -r input answer &&
	head -c "$input" >"$data/input" && head -c "$answer" >"$data/answer" && cat >"$data/output" || exit 1
"$@" <"$data/output" >/dev/null
printf 'exit %d\n' "$?"
# The checker is another's program, and may leave anything there. Files are read here by the shell itself, up to a
# bound; the C locale counts bytes.
LC_ALL=C
cd "$data/feedback" || exit 0
for file in judgemessage.txt teammessage.txt score.txt score_multiplier.txt nextpass.in; do
	if [ -L "$file" ] || { [ -e "$file" ] && [ ! -f "$file" ]; }; then
		printf '%s -\n' "$file"
	elif [ -e "$file" ]; then
		text=
		IFS= read -r -d '' -n 65536 text <"$file"
		printf '%s %d\n%s' "$file" "${#text}" "$text"
	fi
done
exit 0
