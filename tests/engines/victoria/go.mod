module engines/victoria

go 1.26.6
