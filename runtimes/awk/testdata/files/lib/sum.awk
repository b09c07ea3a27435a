function sum(file,   line, total) {
	while ((getline line < file) > 0)
		total += line
	return total
}
