// Package logging builds the daemon's logger: one line a transition, readable
// on a console or as JSON for a collector.
package logging

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger that writes to standard error without ever blocking its
// caller, and a function that waits a moment for the last lines to be written.
// Level is debug, info, warn or error; format is console or json. The level
// never changes behaviour.
func New(level, format string) (*zap.Logger, func(), error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey, cfg.MessageKey = "time", "msg"
	cfg.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000000Z07:00")
	var enc zapcore.Encoder
	switch format {
	case "json":
		enc = zapcore.NewJSONEncoder(cfg)
	case "console":
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		cfg.ConsoleSeparator = " "
		enc = zapcore.NewConsoleEncoder(cfg)
	default:
		return nil, nil, fmt.Errorf("--log-format %q: want console or json", format)
	}
	w := newWriter(os.Stderr)
	return zap.New(zapcore.NewCore(enc, w, lvl)), w.close, nil
}
