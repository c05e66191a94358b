module baobab-client

go 1.24
