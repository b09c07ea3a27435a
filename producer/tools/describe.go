package tools

import (
	"encoding/json"

	"github.com/glovebox-run/glovebox/job"
)

// Format is how a model provider's API takes a table of tools.
type Format string

// The formats: of OpenAI's chat completions, of Anthropic's messages, and of MCP's tools/list.
const (
	OpenAI    Format = "openai"
	Anthropic Format = "anthropic"
	MCP       Format = "mcp"
)

// Formats returns all of them.
func Formats() []Format { return []Format{OpenAI, Anthropic, MCP} }

// Describe returns the tools as the format has them: the value of "tools" in a request to that
// API. It fails with job.Invalid for a format that is none.
func Describe(tools []Tool, format Format) ([]any, error) {
	list := make([]any, 0, len(tools))
	for _, t := range tools {
		switch format {
		case OpenAI:
			list = append(list, map[string]any{"type": "function", "function": map[string]any{
				"name": t.Name, "description": t.Description, "parameters": t.Input,
			}})
		case Anthropic:
			list = append(list, map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.Input})
		case MCP:
			tool := map[string]any{"name": t.Name, "title": t.Title, "description": t.Description, "inputSchema": t.Input}
			if !t.textOnly {
				tool["outputSchema"] = outcomeSchema
			}
			list = append(list, tool)
		default:
			return nil, job.Invalid{{Field: "format", Value: string(format[:min(len(format), 60)]), Message: "is not known", Allowed: "openai, anthropic, mcp"}}
		}
	}
	return list, nil
}

// outcomeSchema is the JSON Schema of an Outcome.
var outcomeSchema = json.RawMessage(`{
	"type": "object",
	"required": ["job_id", "status", "exit_code", "stdout", "stderr", "artifacts"],
	"properties": {
		"job_id": {"type": "string", "description": "Names the job to get_job."},
		"status": {"type": "string", "description": "succeeded, failed, timed_out, out_of_memory, output_limit_exceeded, compile_failed, canceled or internal_error; queued, running or held (until a person approves it) if it has not ended."},
		"exit_code": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "The program's own."},
		"stdout": {"type": "string", "description": "What it printed, its middle left out where it is long."},
		"stderr": {"type": "string", "description": "The same of standard error."},
		"artifacts": {
			"type": "array",
			"items": {
				"type": "object",
				"required": ["name", "media_type", "size"],
				"properties": {
					"name": {"type": "string"},
					"media_type": {"type": "string"},
					"size": {"type": "integer", "description": "Bytes."},
					"url": {"type": "string", "description": "Downloads it, without a token, until it expires."}
				}
			}
		},
		"error": {"type": "string", "description": "What went wrong, where status and exit code don't say."},
		"value": {"type": "string", "description": "In a session, the value of the last expression, as text."},
		"exception": {"type": "string", "description": "In a session, the name of the error that ended the code, and what it says."},
		"session_id": {"type": "string", "description": "The session that executed it, for further calls."},
		"state": {"type": "string", "description": "kept or lost: what became of the session's variables."}
	}
}`)
