Creator "someone"
# a ring of three
graph [
  label "ring"
  node [ id 0 label "A" Longitude 21.2 ]
  node [ id 1 label "A" graphics [ x 1 w [ y 2 ] ] ]
  node [ id 2 ]
  edge [ source 0 target 1 LinkLabel "10 Gbps" ]
  edge [ source 1 target 2 ]
  edge [ source 1 target 2 ]
  edge [ target 0 source 2 ]
]
