// Package notebook writes what a session has executed as a Jupyter notebook, nbformat 4.5: a code cell for each execution, with what it
// printed and how it failed, and charts that are small enough. It executes nothing, and makes up nothing: names of files and hashes
// are in the cells' metadata, and what can't be shown is left out.
//
// Start with [Write].
package notebook
