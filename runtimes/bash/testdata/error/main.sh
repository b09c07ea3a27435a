echo before
echo "on purpose" >&2
exit 3
