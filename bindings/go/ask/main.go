// A chat with a model inside your own program.
//
//	go run ./ask [MODEL.gguf] ["a question"]
package main

import (
	"context"
	"fmt"
	"os"

	"kentang"
)

func ask(path, question string) error {
	model, err := kentang.Open(path, kentang.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	params := kentang.DefaultParams()
	params.Temperature, params.Predict = 0, 200
	answer, err := model.Chat(context.Background(), []kentang.Message{{Role: "user", Content: question}}, params)
	if err != nil {
		return err
	}
	defer answer.Close()
	for answer.Next() {
		fmt.Print(answer.Text())
	}
	if err := answer.Err(); err != nil {
		return err
	}
	fmt.Printf("\n[%d tokens, %s]\n", answer.Report().Generated, answer.Report().Finish)
	return nil
}

func main() {
	words := [2]string{"", "Who are you?"}
	copy(words[:], os.Args[1:])
	if err := ask(words[0], words[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
