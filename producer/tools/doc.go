// Package tools is what a model can call: code to run, and a job to ask for. One table of
// tools serves the Model Context Protocol ([Server]), the tool formats of model providers
// ([Describe]), and programs that call a tool by name ([Tool.Call]).
//
// A call is a job like every other: the same tenant, quotas, sandbox and record.
package tools
