module github.com/tenure/tenure/sdk/go

go 1.19
