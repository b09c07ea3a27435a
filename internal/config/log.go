package config

import (
	"io"
	"log/slog"
)

// Logger writes to w as GLOVEBOX_LOG asks: "json" or "text".
func Logger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
