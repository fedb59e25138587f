# pool-cosines.png of tools/paper.sh: cosine of each convolution's weight gradient with dense's.
#     gnuplot -e "name='pool-cosines'" cosines.gp
set datafile separator ','
set terminal pngcairo size 900,560 font 'sans,11' noenhanced
set output name.'.png'
set title 'Cosine of the weight gradient with the dense one'
set grid ytics lc rgb '#dddddd'
set yrange [*:1]
set key bottom right
set xtics rotate by -60
set rmargin 8
short(tensor) = tensor[1:strlen(tensor) - strlen('.weight')]
plot name.'.csv' every ::1 using 0:2:xtic(short(strcol(1))) with linespoints lw 2 pt 7 title 'cells of 2 x 2', \
    '' every ::1 using 0:3 with linespoints lw 2 pt 7 title 'cells of 4 x 4'
