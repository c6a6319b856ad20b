module kentang

go 1.19
