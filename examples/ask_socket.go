// A prompt to a running `kentang serve` over its Unix socket, streamed. Standard library only.
//
//	go run ask_socket.go SOCKET PROMPT
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
)

type answer struct {
	Text         string
	Done         bool
	FinishReason string `json:"finish_reason"`
	Usage        struct {
		CompletionTokens int `json:"completion_tokens"`
	}
	Error *struct{ Message string }
}

func ask(path, question string) error {
	connection, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer connection.Close()
	request := map[string]any{
		"messages": []map[string]string{{"role": "user", "content": question}}, "stream": true, "max_tokens": 100,
	}
	if err := json.NewEncoder(connection).Encode(request); err != nil {
		return err
	}
	for lines := json.NewDecoder(connection); ; {
		var a answer
		if err := lines.Decode(&a); err != nil {
			return err
		}
		if a.Error != nil {
			return fmt.Errorf("%s", a.Error.Message)
		}
		if a.Done {
			fmt.Fprintf(os.Stderr, "\n[%s, %d tokens]\n", a.FinishReason, a.Usage.CompletionTokens)
			return nil
		}
		fmt.Print(a.Text)
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: ask_socket SOCKET PROMPT")
		os.Exit(2)
	}
	if err := ask(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
