echo '{"a": [1, 2, 3]}' | jq -c '.a | add'
echo '2 ^ 64' | bc
printf 'a 1\nb 2\n' | gawk '{ sum += $2 } END { print sum }'
printf 'b\na\n' | sort | tr '\n' ' ' | sed 's/ $//'
echo
printf 'abc' | sha256sum | cut -c 1-8
