package main

import "github.com/spf13/cobra"

// one wants exactly one argument, and says what it is.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("%s is missing: %s", what, cmd.UseLine())
		case len(args) > 1:
			return usagef("one %s is wanted, not %d: %s", what, len(args), cmd.UseLine())
		}
		return nil
	}
}
