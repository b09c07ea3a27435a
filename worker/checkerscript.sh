# shellcheck shell=bash
# Runs a checker on one test, in the checker's own sandbox. Its arguments are the checker's command line, which
# names the files below as its kind wants them. Standard input has a line with numbers: the sizes of input, answer and
# state, how many passes may follow, how much the next one's input and state may have, how much of a file of the feedback
# is reported, and whether the checker is interactive. The three come next. State is the feedback directory that the pass
# before left. Behind them is the output to be judged, or, for an interactive checker, what the program says meanwhile.
# internal/grading's Rule reads the report: on standard output, or on standard error where standard output is what the
# program reads.
umask 077
data=/tmp/.glovebox
mkdir "$data" "$data/feedback" && IFS=' ' read -r input answer state more most_input most_state most_file interactive &&
	head -c "$input" >"$data/input" && head -c "$answer" >"$data/answer" && head -c "$state" >"$data/state" || exit 1
if [ "$state" -gt 0 ]; then
	tar -x -C "$data/feedback" -f "$data/state" || exit 1
fi
rm "$data/state"
if [ "$interactive" = 1 ]; then
	exec 3>&2 2>"$data/stderr" # of the shell, too: it says what signal ended the checker
	"$@" 3>&-
	code=$?
	exec >&3 3>&-
else
	cat >"$data/output" || exit 1
	"$@" <"$data/output" >/dev/null
	code=$?
fi
printf 'exit %d\n' "$code"
# The checker is another's program, and may leave anything there. Files are read here by the shell itself, up to a
# bound; the C locale counts bytes.
LC_ALL=C
# report FILE MOST prints the beginning of a file.
report() {
	text=
	IFS= read -r -d '' -n "$2" text <"$1"
	printf '%s %d\n%s' "${1##*/}" "${#text}" "$text"
}
if [ "$interactive" = 1 ] && [ -f "$data/stderr" ] && [ ! -L "$data/stderr" ]; then
	report "$data/stderr" 4096
fi
cd "$data/feedback" || exit 0
for file in judgemessage.txt teammessage.txt score.txt score_multiplier.txt nextpass.in; do
	if [ -L "$file" ] || { [ -e "$file" ] && [ ! -f "$file" ]; }; then
		printf '%s -\n' "$file"
	elif [ -e "$file" ] && [ "$file" = nextpass.in ] && [ "$more" -gt 0 ] && [ "$code" = 42 ]; then
		size=$(stat -c %s "$file")
		if [ "$size" -gt "$most_input" ]; then
			printf '%s +\n' "$file"
			continue
		fi
		printf '%s %d\n' "$file" "$size"
		head -c "$size" "$file"
		# All else is for the next pass.
		tar -c --exclude="./$file" -f - . | head -c $((most_state + 1)) >"$data/state"
		kept=${PIPESTATUS[0]} size=$(stat -c %s "$data/state")
		if [ "$size" -gt "$most_state" ]; then
			printf 'state +\n'
		elif [ "$kept" != 0 ]; then
			printf 'state -\n'
		else
			printf 'state %d\n' "$size"
			cat "$data/state"
		fi
	elif [ -e "$file" ]; then
		report "$file" "$most_file"
	fi
done
exit 0
