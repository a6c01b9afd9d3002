package main

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/redlatch/redlatch/bench/internal/stage"
)

// distance is how long a request takes to a Redis that is far.
const distance = time.Millisecond

// far is the address of a server that is away by distance. However much is under way, nothing waits
// for what was sent before it.
func far(on *stage.Stage, target string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	var links sync.WaitGroup
	on.Cleanup(func() {
		_ = l.Close()
		links.Wait() // the clients have ended
	})
	links.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			links.Go(func() { carry(client, target) })
		}
	})
	return l.Addr().String(), nil
}

// carry is one connection.
func carry(client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	replies := make(chan struct{})
	go func() {
		defer close(replies)
		_, _ = io.Copy(client, server)
	}()
	type packet struct {
		due  time.Time
		data []byte
	}
	packets, sent := make(chan packet, 1<<10), make(chan struct{})
	go func() {
		defer close(sent)
		for p := range packets {
			time.Sleep(time.Until(p.due))
			_, _ = server.Write(p.data)
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			packets <- packet{time.Now().Add(distance), append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(packets)
	<-sent
	_ = server.Close()
	<-replies
}
